// NumPy's arrays as data sets. What Debian's NumPy writes is read in tests/whole/remote_data_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "tests/support/archives.hpp"
#include "tests/support/gathered.hpp"
#include "tests/support/problem.hpp"
#include "tests/support/scratch_folder.hpp"
#include "trainer/data/dataset.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename Number>
std::string bytes_of(std::initializer_list<Number> numbers) {
  return {reinterpret_cast<const char*>(numbers.begin()), numbers.size() * sizeof(Number)};
}

// A file of version 1.
std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                const std::string& fortran = "False") {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
  header.append(117 - header.size() % 64, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size() & 0xFF) +
         static_cast<char>(header.size() >> 8) + header + data;
}

class NumpyTest : public testing::Test {
 protected:
  std::unique_ptr<Dataset> open(const std::string& name) const {
    return open_dataset("numpy:" + name, folder_.path());
  }
  void put(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    write_file(folder_.path() / name, bytes);
  }
  std::string problem_of(const std::string& bytes) const {
    put("x.npy", bytes);
    return problem<DataError>([&] { open("x.npy"); });
  }

  const std::string input_ = npy("<f4", "(2, 3)", bytes_of<float>({1, 2, 3, 4, 5, 6.5F}));
  const std::string labels_ = npy("<i8", "(2,)", bytes_of<std::int64_t>({7, 1}));
  ScratchFolder folder_;
};

TEST_F(NumpyTest, AreTensorsByNameFromAFolderAnNpzAndAFile) {
  put("set/input.npy", input_);
  put("set/labels.npy", labels_);
  put("set/below/other.npy", "not looked at");
  write_archive(folder_.path() / "set.npz", {{"input.npy", input_}, {"labels.npy", labels_}});
  for (const char* name : {"set", "set.npz"}) {
    const auto data = open(name);
    EXPECT_EQ(data->tensors(),
              (ValueTypes{{"input", {DType::kF32, {kBatch, 3}}}, {"labels", {DType::kI64, {kBatch}}}}));
    EXPECT_THAT(gathered<float>(*data, "input", {1, 0}), ElementsAre(4, 5, 6.5F, 1, 2, 3));
    EXPECT_THAT(gathered<std::int64_t>(*data, "labels", {0, 1}), ElementsAre(7, 1));
  }
  EXPECT_EQ(open("set/input.npy")->tensors().size(), 1U);
}

TEST_F(NumpyTest, NumbersOfAllTypesBecomeThoseOfModels) {
  put("set/f64.npy", npy("<f8", "(2,)", bytes_of<double>({1.5, -2})));
  put("set/i8.npy", npy("|i1", "(2,)", bytes_of<std::int8_t>({-1, 2})));
  put("set/u16.npy", npy("<u2", "(2,)", bytes_of<std::uint16_t>({65535, 2})));
  put("set/u32.npy", npy("<u4", "(2,)", bytes_of<std::uint32_t>({4294967295U, 2})));
  put("set/i16.npy", npy("<i2", "(2,)", bytes_of<std::int16_t>({-300, 2})));
  put("set/i32.npy", npy("<i4", "(2,)", bytes_of<std::int32_t>({-70000, 2})));
  put("set/flags.npy", npy("|b1", "(2,)", bytes_of<std::uint8_t>({1, 0})));
  put("set/bytes.npy", npy("|u1", "(2,)", bytes_of<std::uint8_t>({255, 0})));
  put("set/pixels.npy", npy("|u1", "(2, 1)", bytes_of<std::uint8_t>({255, 51})));
  const auto data = open("set");
  EXPECT_THAT(gathered<float>(*data, "f64", {0, 1}), ElementsAre(1.5F, -2));
  const auto integers = [&](const char* name) { return gathered<std::int64_t>(*data, name, {0, 1}); };
  EXPECT_THAT(integers("i8"), ElementsAre(-1, 2));
  EXPECT_THAT(integers("u16"), ElementsAre(65535, 2));
  EXPECT_THAT(integers("u32"), ElementsAre(4294967295, 2));
  EXPECT_THAT(integers("i16"), ElementsAre(-300, 2));
  EXPECT_THAT(integers("i32"), ElementsAre(-70000, 2));
  EXPECT_THAT(integers("flags"), ElementsAre(1, 0));
  EXPECT_THAT(integers("bytes"), ElementsAre(255, 0));
  EXPECT_THAT(gathered<float>(*data, "pixels", {0, 1}), ElementsAre(1, 0.2F));
  EXPECT_THAT(gathered<float>(*open("set?scale=51"), "pixels", {0, 1}), ElementsAre(5, 1));
}

TEST_F(NumpyTest, WithoutACacheSamplesAreReadWhenTheyAreWanted) {
  put("set/f64.npy", npy("<f8", "(3, 2)", bytes_of<double>({1.5, -2, 0, 1, 7, 0.25})));
  put("set/floats.npy", npy("<f4", "(3,)", bytes_of<float>({1, 2, 3})));
  put("set/pixels.npy", npy("|u1", "(3, 2)", bytes_of<std::uint8_t>({255, 0, 1, 2, 3, 51})));
  put("set/labels.npy", npy("<i2", "(3,)", bytes_of<std::int16_t>({-7, 1, 300})));
  const auto whole = open("set");
  const auto stored = open_dataset("numpy:set", folder_.path(), {.cache_mib = 0});
  EXPECT_FALSE(stored->is_at_hand());
  EXPECT_EQ(stored->tensors(), whole->tensors());
  for (const char* name : {"f64", "floats", "pixels"})
    EXPECT_EQ(gathered<float>(*stored, name, {2, 0}), gathered<float>(*whole, name, {2, 0})) << name;
  EXPECT_THAT(gathered<std::int64_t>(*stored, "labels", {2, 0, 1}), ElementsAre(300, -7, 1));
}

// More numbers than are converted at once.
TEST_F(NumpyTest, ASampleMayBeLarge) {
  constexpr std::size_t kNumbers = 300'001;
  std::string data;
  for (std::size_t i = 0; i < kNumbers; ++i) data += bytes_of<double>({static_cast<double>(i)});
  put("x.npy", npy("<f8", "(1, 300001)", data));
  const auto stored = open_dataset("numpy:x.npy", folder_.path(), {.cache_mib = 0});
  std::vector<float> expected(kNumbers);
  std::iota(expected.begin(), expected.end(), 0.0F);
  EXPECT_EQ(gathered<float>(*stored, "x", {0}), expected);
}

TEST_F(NumpyTest, FilesThatAreNoneAreErrorsThatSayWhy) {
  const std::string data = bytes_of<float>({1, 2});
  EXPECT_THAT(problem_of(""), AllOf(HasSubstr("x.npy"), HasSubstr("does not begin as")));
  EXPECT_THAT(problem_of(npy("<f4", "(2,)", data).substr(0, 40)), HasSubstr("ends within its header"));
  EXPECT_THAT(problem_of(npy("<f4", "(2,)", data + "x")), HasSubstr("has 9 bytes of numbers"));
  EXPECT_THAT(problem_of(npy("<f4", "(3,)", data)), HasSubstr("8 bytes of numbers where its header says 12"));
  EXPECT_THAT(problem_of(npy("<f4", "(2,)", data, "True")), HasSubstr("Fortran"));
  EXPECT_THAT(problem_of(npy(">f4", "(2,)", data)), HasSubstr("type '>f4'"));
  EXPECT_THAT(problem_of(npy("|O", "(2,)", data)), HasSubstr("type '|O'"));
  EXPECT_THAT(problem_of(npy("<f4", "(-2,)", data)), HasSubstr("its header is none"));
  EXPECT_THAT(problem_of(npy("<f4", "(2", data)), HasSubstr("its header is none"));
  EXPECT_THAT(problem_of(npy("<f4", "(4294967296, 4294967296, 4294967296)", data)),
              HasSubstr("more than it can"));
  EXPECT_THAT(problem_of(npy("<f4", "(0,)", "")), HasSubstr("has no samples"));
  EXPECT_THAT(problem_of(npy("<f4", "()", bytes_of<float>({1}))), HasSubstr("has no samples"));
  EXPECT_THAT(problem_of(npy("<f4", "(1,)", bytes_of<std::uint32_t>({0x7FC00000}))),
              HasSubstr("not a finite"));
}

}  // namespace
}  // namespace rookery
