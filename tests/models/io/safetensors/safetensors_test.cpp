#include "models/io/safetensors/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "models/base/libraries/format.hpp"
#include "tests/models/io/files.hpp"
#include "tests/support/equal_states.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

StateDict small_state() {
  StateDict state;
  state.emplace("weight", Tensor(DType::kF32, {2, 3}));
  for (std::size_t i = 0; i < 6; ++i) state.at("weight").as<float>()[i] = 0.5F * static_cast<float>(i);
  state.emplace("wide", Tensor(DType::kF64, {2}));
  state.at("wide").as<double>()[1] = -1e300;
  state.emplace("count", Tensor(DType::kI64, {}));
  state.at("count").as<std::int64_t>()[0] = -7;
  state.emplace("index", Tensor(DType::kI32, {1}));
  state.at("index").as<std::int32_t>()[0] = 1 << 30;
  state.emplace("byte", Tensor(DType::kU8, {3}));
  state.at("byte").as<std::uint8_t>()[2] = 255;
  state.emplace("flag", Tensor(DType::kBool, {3}));
  state.at("flag").as<bool>()[1] = true;
  state.emplace("empty", Tensor(DType::kF32, {0, 4}));
  return state;
}

// A file with this header, length included, and so many bytes of data.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  const auto length = std::bit_cast<std::array<char, 8>>(std::uint64_t{header.size()});
  return std::string(length.data(), length.size()) + header + std::string(data_bytes, '\0');
}

class Safetensors : public testing::Test {
 protected:
  std::string error_of(const std::string& bytes) {
    overwrite(path_, bytes);
    const std::string extents = data_error([&] { SafetensorsReader{path_}; });
    EXPECT_THAT(extents, HasSubstr(path_.string()));
    return data_error([&] { read_safetensors(path_); });
  }
  std::string error_of_header(const std::string& header, std::size_t data_bytes) {
    return error_of(file_of(header, data_bytes));
  }

  ScratchFolder folder_;
  std::filesystem::path path_ = folder_.path() / "state.safetensors";
};

TEST_F(Safetensors, RoundTrip) {
  const StateDict state = small_state();
  const Metadata metadata{{"model", "cnn_net"}, {"città", "Torino"}};
  write_safetensors(path_, state, metadata);
  const SafetensorsFile file = read_safetensors(path_);
  expect_equal(state, file.tensors);
  EXPECT_EQ(file.metadata, metadata);
}

TEST_F(Safetensors, EmptyStateRoundTrip) {
  write_safetensors(path_, StateDict{});
  EXPECT_TRUE(read_safetensors(path_).tensors.empty());
  EXPECT_TRUE(read_safetensors(path_).metadata.empty());
}

RC_GTEST_PROP(SafetensorsProperty, AnyTensorsRoundTrip, ()) {
  const ScratchFolder folder;
  StateDict state;
  const auto names = *rc::gen::unique<std::vector<std::string>>(
      rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::inRange('a', 'z'))));
  for (const std::string& name : names) {
    const auto dims =
        *rc::gen::resize(4, rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange(0, 4)));
    Tensor tensor(static_cast<DType>(*rc::gen::inRange(0, kDTypes - 1)), Shape(dims));
    for (std::byte& byte : tensor.view().bytes()) byte = static_cast<std::byte>(*rc::gen::inRange(0, 256));
    state.emplace(name, std::move(tensor));
  }
  write_safetensors(folder.path() / "file", state);
  expect_equal(state, read_safetensors(folder.path() / "file").tensors);
}

TEST_F(Safetensors, DataIsAlignedAndContiguous) {
  const StateDict state = small_state();
  write_safetensors(path_, state);
  const auto extents = SafetensorsReader(path_).extents();
  ASSERT_EQ(extents.size(), state.size());
  const std::string bytes = read_file(path_, kAnySize);
  std::uint64_t first = kAnySize;
  std::uint64_t sum = 0;
  for (const auto& [name, extent] : extents) {
    EXPECT_EQ(extent.offset % bytes_of(state.at(name).type().dtype), 0U) << name;
    ASSERT_EQ(extent.bytes, state.at(name).view().bytes().size());
    const auto data = std::as_bytes(std::span(bytes)).subspan(extent.offset, extent.bytes);
    EXPECT_TRUE(std::ranges::equal(data, state.at(name).view().bytes())) << name;
    first = std::min(first, extent.offset);
    sum += extent.bytes;
  }
  EXPECT_EQ(first % kAlignment, 0U);
  EXPECT_EQ(first + sum, bytes.size());
}

TEST_F(Safetensors, ReadsHeaderOfOtherWriters) {
  const std::string header = R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},)"
                             R"("a":{"shape":[1],"data_offsets":[0,4],"dtype":"F32"}} )";
  overwrite(path_, file_of(header, 6));
  EXPECT_EQ(read_safetensors(path_).tensors.size(), 2U);
}

TEST_F(Safetensors, TruncatedAtEveryByte) {
  write_safetensors(path_, small_state(), {{"model", "cnn_net"}});
  const std::string whole = read_file(path_, kAnySize);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(error_of(whole.substr(0, length)).empty()) << length << " bytes";
  }
  EXPECT_THAT(error_of(whole + "x"), HasSubstr("1 bytes follow the last tensor"));
}

// Whatever a flipped bit in the header makes of it: a file that is read, or a DataError.
TEST_F(Safetensors, FlippedBits) {
  write_safetensors(path_, small_state());
  const std::string whole = read_file(path_, kAnySize);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
    overwrite(path_, flipped);
    try {
      read_safetensors(path_);
    } catch (const DataError&) {
    }
  }
}

TEST_F(Safetensors, FlippedDtype) {
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"F64","shape":[2],"data_offsets":[0,8]}})", 8),
              HasSubstr("tensor \"a\": f64[2] needs 16 bytes, its data_offsets hold 8"));
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}})", 8),
              HasSubstr("dtype \"BF16\" is not supported"));
}

TEST_F(Safetensors, WrappedOffset) {
  EXPECT_THAT(
      error_of_header(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[18446744073709551608,0]}})", 8),
      HasSubstr("are not begin and end"));
  EXPECT_THAT(
      error_of_header(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,18446744073709551615]}})", 8),
      HasSubstr("the file has 8: an incomplete copy?"));
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[-8,0]}})", 8),
              HasSubstr("data_offsets: -8 is not"));
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8.0]}})", 8),
              HasSubstr("8.0 is not"));
}

TEST_F(Safetensors, OverlappingTensors) {
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                              R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                              8),
              HasSubstr("tensor \"b\" begins at byte 4 of the data, which overlaps"));
}

TEST_F(Safetensors, Hole) {
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})", 8),
              HasSubstr("leaves a hole"));
}

TEST_F(Safetensors, HugeDims) {
  EXPECT_THAT(
      error_of_header(R"({"a":{"dtype":"U8","shape":[1152921504606846976,16],"data_offsets":[0,0]}})", 0),
      HasSubstr("no usable number of elements"));
  EXPECT_THAT(
      error_of_header(R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,0]}})", 0),
      HasSubstr("a dimension of 18446744073709551615"));
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1),
              HasSubstr("more than 8 dimensions"));
}

TEST_F(Safetensors, HugeHeader) {
  for (const std::uint64_t length : {std::uint64_t{1} << 63, ~std::uint64_t{0}, std::uint64_t{100'000'001},
                                     std::uint64_t{1000}, std::uint64_t{0}}) {
    const auto raw = std::bit_cast<std::array<char, 8>>(length);
    EXPECT_THAT(error_of(std::string(raw.data(), 8) + "{}"),
                HasSubstr(fmt::format("its header claims {} bytes in a file of 10", length)));
  }
}

TEST_F(Safetensors, NotJson) {
  EXPECT_THAT(error_of_header("{\"a\":", 0), HasSubstr("its header is not JSON"));
  EXPECT_THAT(error_of_header("[1,2,3]", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(error_of_header("{\"a\":" + std::string(100'000, '['), 0),
              HasSubstr("a list where none belongs"));
  std::string tower;
  for (int i = 0; i < 10'000; ++i) tower += "{\"a\":";
  EXPECT_THAT(error_of_header(tower, 0), HasSubstr("nested too deeply"));
}

TEST_F(Safetensors, NotUtf8) {
  EXPECT_THAT(error_of_header("{\"a\xff\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0),
              HasSubstr("not JSON"));
  StateDict state;
  state.emplace("a\xff", Tensor(DType::kU8, {1}));
  EXPECT_THAT(data_error([&] { write_safetensors(path_, state); }), HasSubstr("not UTF-8"));
}

TEST_F(Safetensors, WrongEntries) {
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"U8","shape":[0]}})", 0),
              HasSubstr("tensor \"a\": is not described"));
  EXPECT_THAT(error_of_header(R"({"a":7})", 0), HasSubstr("is not described"));
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":7,"shape":[0],"data_offsets":[0,0]}})", 0),
              HasSubstr("is not described"));
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"U8","shape":{},"data_offsets":[0,0]}})", 0),
              HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0]}})", 0),
              HasSubstr("are not begin and end"));
  EXPECT_THAT(error_of_header(R"({"__metadata__":{"model":7}})", 0), HasSubstr("\"model\" is not text"));
}

TEST_F(Safetensors, NameGivenTwice) {
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                              R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                              1),
              HasSubstr("its header has \"a\" twice"));
}

TEST_F(Safetensors, BoolOutOfRange) {
  const std::string header = R"({"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})";
  std::string bytes = file_of(header, 1);
  bytes.back() = 2;
  overwrite(path_, bytes);
  EXPECT_THAT(data_error([&] { read_safetensors(path_); }), HasSubstr("neither 0 nor 1"));
}

TEST_F(Safetensors, NewerFormatVersion) {
  EXPECT_THAT(error_of_header(R"({"__metadata__":{"rookery_format":"2"}})", 0),
              HasSubstr("format version \"2\", this program knows up to 1"));
}

TEST_F(Safetensors, Missing) {
  EXPECT_THAT(data_error([&] { read_safetensors(path_); }), HasSubstr("No such file"));
  EXPECT_THAT(data_error([&] { read_safetensors(folder_.path()); }), HasSubstr("directory"));
}

}  // namespace
}  // namespace rookery
