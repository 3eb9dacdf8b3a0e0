// Reading PyTorch's files: those that PyTorch writes, and those that nobody should.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/io/pytorch/pytorch.hpp"
#include "models/io/state_file.hpp"
#include "tests/models/io/files.hpp"
#include "tests/models/io/onnx/onnx_models.hpp"
#include "tests/models/io/python_check.hpp"
#include "tests/models/io/pytorch/zip_file.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string text(const std::string& value) {
  return "X" + little(value.size(), 4) + value;
}
std::string integer(std::int64_t value) {
  return "\x8a\x08" + little(static_cast<std::uint64_t>(value), 8);
}
std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string tuple(const std::vector<std::int64_t>& numbers) {
  std::string pickle = "(";
  for (const std::int64_t number : numbers) pickle += integer(number);
  return pickle + "t";
}
std::string tensor(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides,
                   std::int64_t stored = 6, std::int64_t offset = 0,
                   const std::string& storage = "FloatStorage") {
  return global("torch._utils", "_rebuild_tensor_v2") + "((" + text("storage") + global("torch", storage) +
         text("0") + text("cpu") + integer(stored) + "tQ" + integer(offset) + tuple(sizes) + tuple(strides) +
         "\x89}tR";
}
std::string dict(const std::string& items) {
  return "\x80\x02}(" + items + "u.";
}

class PytorchRead : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "state.pt"; }

  // An archive of this pickle and a storage of the floats 0 to 5.
  void write(const std::string& pickle) {
    std::string data;
    for (int i = 0; i < 6; ++i) data += little(std::bit_cast<std::uint32_t>(static_cast<float>(i)), 4);
    overwrite(path(), zip_of({stored("a/data.pkl", pickle), stored("a/data/0", data)}));
  }
  std::string error() {
    std::string message = data_error([&] { read_pytorch(path()); });
    EXPECT_THAT(message, HasSubstr(path().string()));
    return message;
  }
  std::string error_of(const std::string& pickle) {
    write(pickle);
    return error();
  }
  std::string error_of_zip(const std::vector<ZipMember>& members) {
    overwrite(path(), zip_of(members));
    return error();
  }

  ScratchFolder folder_;
};

std::vector<float> floats(const Tensor& tensor) {
  return {tensor.as<float>().begin(), tensor.as<float>().end()};
}

TEST_F(PytorchRead, WhatPytorchWrites) {
  ROOKERY_NEEDS_PYTHON(kSystemPython, "torch");
  ASSERT_EQ(run_python(kSystemPython, "write_pytorch.py", folder_.path().string()), 0);
  const StateDict expected = read_safetensors(folder_.path() / "expected.safetensors").tensors;
  for (const char* file :
       {"protocol_2.pt", "protocol_3.pt", "protocol_4.pt", "protocol_5.pt", "deflated.pt"}) {
    const StateDict state = read_state_file(folder_.path() / file).tensors;
    ASSERT_EQ(state.size(), expected.size()) << file;
    for (const auto& [name, tensor] : expected) {
      ASSERT_TRUE(state.contains(name)) << file << " " << name;
      ASSERT_EQ(state.at(name).type(), tensor.type()) << file << " " << name;
      EXPECT_TRUE(std::ranges::equal(state.at(name).view().bytes(), tensor.view().bytes()))
          << file << " " << name;
    }
  }
  const auto error = [&](const char* file) {
    return data_error([&] { read_state_file(folder_.path() / file); });
  };
  EXPECT_THAT(error("module.pt"), HasSubstr("torch.nn.modules.linear.Linear"));
  EXPECT_THAT(error("checkpoint.pt"), HasSubstr("holds a state dict as \"model\""));
  EXPECT_THAT(error("int16.pt"), HasSubstr("tensor \"x\": its elements are a torch.ShortStorage"));
  EXPECT_THAT(error("script.pt"), HasSubstr("TorchScript"));
  EXPECT_THAT(error("calls.pt"), HasSubstr("posix.system"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "called"));
  EXPECT_THAT(error("legacy.pt"), AllOf(HasSubstr("before 1.6"), HasSubstr("torch.save(torch.load(")));
}

TEST_F(PytorchRead, WhatWeWrite) {
  const StateDict written = trained_state(small_model());
  std::vector<std::string> order;
  for (const auto& [name, tensor] : written) order.push_back(name);
  write_pytorch(path(), written, order);
  const StateDict read = read_pytorch(path());
  ASSERT_EQ(read.size(), written.size());
  for (const auto& [name, tensor] : written)
    EXPECT_TRUE(std::ranges::equal(read.at(name).view().bytes(), tensor.view().bytes())) << name;
}

TEST_F(PytorchRead, StridesAndOffsets) {
  write(dict(text("t") + tensor({3, 2}, {1, 3}) + text("row") + tensor({2}, {2}, 6, 1) + text("same") +
             tensor({2, 2}, {0, 1}) + text("scalar") + tensor({}, {}, 6, 5) + text("none") +
             tensor({0, 9}, {1, 1})));
  const StateDict state = read_pytorch(path());
  EXPECT_EQ(floats(state.at("t")), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(floats(state.at("row")), (std::vector<float>{1, 3}));
  EXPECT_EQ(floats(state.at("same")), (std::vector<float>{0, 1, 0, 1}));
  EXPECT_EQ(floats(state.at("scalar")), (std::vector<float>{5}));
  EXPECT_EQ(state.at("none").shape(), Shape({0, 9}));
}

TEST_F(PytorchRead, HalfPrecisionIsExact) {
  // 1, -2, the largest, the smallest subnormal, infinity, NaN.
  std::string data;
  for (const int bits : {0x3C00, 0xC000, 0x7BFF, 0x8001, 0x7C00, 0x7E00})
    data += little(static_cast<unsigned>(bits), 2);
  const std::string pickle = dict(text("x") + tensor({6}, {1}, 6, 0, "HalfStorage"));
  overwrite(path(), zip_of({stored("a/data.pkl", pickle), stored("a/data/0", data)}));
  const StateDict state = read_pytorch(path());
  const std::vector<float> read = floats(state.at("x"));
  EXPECT_EQ(std::vector<float>(read.begin(), read.begin() + 5),
            (std::vector<float>{1, -2, 65504, -0x1p-24F, HUGE_VALF}));
  EXPECT_TRUE(std::isnan(read[5]));
}

TEST_F(PytorchRead, OpcodesAreRefusedByName) {
  const std::string begin = "\x80\x02";
  EXPECT_THAT(error_of(begin + "cposix\nsystem\n(" + text("true") + "tR."),
              HasSubstr("names \"posix.system\""));
  EXPECT_THAT(error_of(begin + text("posix") + text("system") + "\x93."), HasSubstr("opcode STACK_GLOBAL"));
  EXPECT_THAT(error_of(begin + "(iposix\nsystem\n."),
              HasSubstr("opcode INST at byte 3: no state dict needs it"));
  EXPECT_THAT(error_of(begin + global("collections", "OrderedDict") + ")\x81."), HasSubstr("opcode NEWOBJ"));
  EXPECT_THAT(error_of(begin + "(o."), HasSubstr("opcode OBJ"));
  EXPECT_THAT(error_of(begin + "\x82\x01."), HasSubstr("opcode EXT1"));
  EXPECT_THAT(error_of(begin + "I1\n."), HasSubstr("opcode INT"));
  EXPECT_THAT(error_of(begin + "\xff"), HasSubstr("0xff is no opcode"));
  EXPECT_THAT(error_of("\x80\x06."), HasSubstr("protocol 6; 2 to 5 are read"));
  EXPECT_THAT(error_of(begin + "K\1)R."), HasSubstr("a call of an integer"));
}

TEST_F(PytorchRead, BrokenPickles) {
  EXPECT_THAT(error_of(""), HasSubstr("needs 1 bytes"));
  EXPECT_THAT(error_of("\x80\x02"), HasSubstr("needs 1 bytes"));
  EXPECT_THAT(error_of("\x80\x02."), HasSubstr("the stack is empty"));
  EXPECT_THAT(error_of("\x80\x02X\xff\xff\xff\x7f."),
              HasSubstr("opcode BINUNICODE at byte 2: needs 2147483647 bytes"));
  EXPECT_THAT(error_of("\x80\x02X\1" + std::string(3, '\0') + "\xff."), HasSubstr("not UTF-8"));
  EXPECT_THAT(error_of("\x80\x02h\x05."), HasSubstr("nothing was remembered as 5"));
  EXPECT_THAT(error_of("\x80\x02(K\1."), HasSubstr("it holds an integer, no state dict"));
  EXPECT_THAT(error_of("\x80\x02}K\1s."), HasSubstr("the stack is empty"));
  EXPECT_THAT(error_of("\x80\x02}(K\1u."), HasSubstr("a key without a value"));
  EXPECT_THAT(error_of("\x80\x02K\1K\1K\1s."), HasSubstr("an integer has no keys"));
  EXPECT_THAT(error_of("\x80\x02t."), HasSubstr("there is no mark"));
  EXPECT_THAT(error_of("\x80\x02" + std::string(std::size_t{2} << 20, '(') + "."),
              HasSubstr("more than 1048576 objects"));
  EXPECT_THAT(error_of("\x80\x02" + std::string(std::size_t{2} << 20, ')') + "."),
              HasSubstr("more than 1048576 objects"));
  // Lists that hold themselves, and very deep ones, are refused as what they are.
  EXPECT_THAT(error_of("\x80\x02]q\1h\1a."), HasSubstr("it holds a list"));
  EXPECT_THAT(error_of("\x80\x02)" + std::string(100'000, '\x85') + "."), HasSubstr("it holds a tuple"));
  EXPECT_THAT(error_of(dict(integer(1) + tensor({6}, {1}))), HasSubstr("a key is an integer"));
  EXPECT_THAT(error_of(dict(text("x") + tensor({6}, {1}) + text("x") + tensor({6}, {1}))),
              HasSubstr("\"x\" is there twice"));
  EXPECT_THAT(error_of(dict(text("x") + text("y"))), HasSubstr("\"x\" is a text, no tensor"));
}

TEST_F(PytorchRead, BrokenTensors) {
  const auto of = [&](const std::string& pickle) { return error_of(dict(text("x") + pickle)); };
  EXPECT_THAT(of(tensor({7}, {1})), HasSubstr("tensor \"x\": [7] with strides [1]"));
  EXPECT_THAT(of(tensor({2, 2}, {5, 1})), HasSubstr("reaches beyond the 6 elements"));
  EXPECT_THAT(of(tensor({2}, {1}, 6, 5)), HasSubstr("reaches beyond the 6 elements"));
  EXPECT_THAT(of(tensor({2}, {INT64_MAX})), HasSubstr("reaches beyond the 6 elements"));
  EXPECT_THAT(of(tensor({2}, {INT64_MAX}, 6, INT64_MAX)), HasSubstr("reaches beyond the 6 elements"));
  EXPECT_THAT(of(tensor({2}, {-1}, 6, 5)), HasSubstr("an integer where a whole number from 0 up belongs"));
  EXPECT_THAT(of(tensor({2}, {1, 1})), HasSubstr("has 2 strides for shape [2]"));
  EXPECT_THAT(of(tensor({std::int64_t{1} << 60}, {0})), HasSubstr("no usable number of elements"));
  EXPECT_THAT(of(tensor({1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1})),
              HasSubstr("9 dimensions"));
  // 2^50 elements that are all the same one; a storage of 2^50 elements.
  EXPECT_THAT(of(tensor({std::int64_t{1} << 50}, {0})), HasSubstr("whose tensors take more than"));
  EXPECT_THAT(of(tensor({std::int64_t{1} << 50}, {1}, std::int64_t{1} << 50)),
              HasSubstr("member \"a/data/0\" has 24 bytes"));
  EXPECT_THAT(of(tensor({6}, {1}, 6, 0, "DoubleStorage")), HasSubstr("6 elements of 8 bytes"));
  EXPECT_THAT(of(tensor({6}, {1}, 6, 0, "ComplexFloatStorage")),
              HasSubstr("ComplexFloatStorage, a type that is not"));
  EXPECT_THAT(of(tensor({24}, {1}, 24, 0, "BoolStorage")), HasSubstr("a bool that is neither 0 nor 1"));
  EXPECT_THAT(of(global("collections", "OrderedDict") + ")R"), HasSubstr("no tensor"));
}

TEST_F(PytorchRead, BrokenArchives) {
  const ZipMember pickle = stored("a/data.pkl", dict(text("x") + tensor({6}, {1})));
  const ZipMember data = stored("a/data/0", std::string(24, '\0'));
  EXPECT_THAT(error_of_zip({}), HasSubstr("has no data.pkl"));
  EXPECT_THAT(error_of_zip({pickle}), HasSubstr("there is no member \"a/data/0\""));
  EXPECT_THAT(error_of_zip({pickle, data, data}), HasSubstr("\"a/data/0\" is there twice"));
  EXPECT_THAT(error_of_zip({pickle, data, stored("a/byteorder", "big")}), HasSubstr("byte order is \"big\""));
  const auto with = [&](const auto& change) {
    ZipMember changed = data;
    change(changed);
    return error_of_zip({pickle, changed});
  };
  EXPECT_THAT(with([](ZipMember& member) { member.crc ^= 1U; }), HasSubstr("is damaged: its checksum"));
  EXPECT_THAT(with([](ZipMember& member) { member.flags = 1; }), HasSubstr("is encrypted"));
  EXPECT_THAT(with([](ZipMember& member) { member.method = 12; }), HasSubstr("packed by method 12"));
  EXPECT_THAT(with([](ZipMember& member) { member.bytes = 25; }), HasSubstr("has two sizes"));
  EXPECT_THAT(with([](ZipMember& member) { member.offset = 0xFFFFFF00; }), HasSubstr("reaches over"));
  EXPECT_THAT(with([](ZipMember& member) { member.offset = 0; }), HasSubstr("reaches over"));
  EXPECT_THAT(with([](ZipMember& member) { member.name += "\xff"; }), HasSubstr("not UTF-8"));
  overwrite(path(), zip_of({pickle, data}) + "x");
  EXPECT_THAT(error(), HasSubstr("no zip directory"));
}

TEST_F(PytorchRead, ArchivesThatInflateToMoreThanTheySay) {
  const std::string pickle = dict(text("x") + tensor({6}, {1}));
  ZipMember data = deflated("a/data/0", std::string(24, '\0'));
  overwrite(path(), zip_of({deflated("a/data.pkl", pickle), data}));
  EXPECT_EQ(floats(read_pytorch(path()).at("x")), std::vector<float>(6));
  data = deflated("a/data/0", std::string(100, '\0'));
  data.bytes = 24;
  EXPECT_THAT(error_of_zip({stored("a/data.pkl", pickle), data}), HasSubstr("more than the 24 bytes"));
  data = deflated("a/data/0", std::string(23, '\0'));
  data.bytes = 24;
  EXPECT_THAT(error_of_zip({stored("a/data.pkl", pickle), data}), HasSubstr("inflates to 23 bytes"));
  data.packed.resize(2);
  EXPECT_THAT(error_of_zip({stored("a/data.pkl", pickle), data}), HasSubstr("cut short"));
  // 400 MB of zeros in 400 kB.
  constexpr std::int64_t kMany = 100'000'000;
  data = deflated("a/data/0", std::string(std::size_t{1} << 20, '\0'));
  data.bytes = 4 * kMany;
  EXPECT_THAT(error_of_zip({stored("a/data.pkl", dict(text("x") + tensor({kMany}, {1}, kMany))), data}),
              HasSubstr("whose tensors take more than"));
}

TEST_F(PytorchRead, FilesCutOffAnywhereOrDamaged) {
  const StateDict written = [] {
    StateDict state;
    state.emplace("weight", Tensor(DType::kF32, {2, 2}));
    state.emplace("count", Tensor(DType::kI64, {}));
    return state;
  }();
  write_pytorch(path(), written, {"weight", "count"});
  const std::string whole = read_file(path(), kAnySize);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    overwrite(path(), whole.substr(0, length));
    EXPECT_NE(error(), "") << length;
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    overwrite(path(), damaged);
    try {
      EXPECT_EQ(read_pytorch(path()).size(), written.size()) << at;  // a byte that nobody reads
    } catch (const DataError&) {
    }
  }
}

}  // namespace
}  // namespace rookery
