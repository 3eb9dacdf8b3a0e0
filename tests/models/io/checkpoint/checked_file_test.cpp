#include "models/io/checkpoint/checked_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {
namespace {

class CheckedFile : public testing::Test {
 protected:
  CheckedFile() {
    Tensor weight(TensorType{DType::kF32, Shape({2, 3})});
    for (std::int64_t i = 0; i < 6; ++i)
      reinterpret_cast<float*>(weight.view().data)[i] = 0.5F + static_cast<float>(i);
    state_.emplace("fc.weight", std::move(weight));
    Tensor count(TensorType{DType::kI64, Shape({})});
    *reinterpret_cast<std::int64_t*>(count.view().data) = 7;
    state_.emplace("count", std::move(count));
    write_checked(path_, views_of(state_), metadata_);
  }

  std::string bytes() const { return read_file(path_, 1 << 16); }
  void replace(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  // Everything that a reader can be asked for.
  StateDict read_all() const {
    CheckedReader reader(path_);
    StateDict state;
    for (const auto& [name, type] : reader.types()) state.emplace(name, reader.read(name));
    return state;
  }

  ScratchFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "part.safetensors";
  const Metadata metadata_{{"step", "41"}, {"note", "grün"}};
  StateDict state_;
};

TEST_F(CheckedFile, ComesBackAsItWas) {
  EXPECT_EQ(CheckedReader(path_).metadata(), metadata_);
  const StateDict read = read_all();
  ASSERT_EQ(read.size(), state_.size());
  for (const auto& [name, tensor] : state_) {
    EXPECT_EQ(read.at(name).type(), tensor.type());
    EXPECT_TRUE(std::ranges::equal(read.at(name).view().bytes(), tensor.view().bytes()));
  }
  EXPECT_NO_THROW(CheckedReader(path_).check_all());
}

TEST_F(CheckedFile, IsAnOrdinaryFileToOthers) {
  const SafetensorsFile file = read_safetensors(path_);
  EXPECT_EQ(file.tensors.size(), 2U);
  EXPECT_EQ(file.metadata.at("step"), "41");
}

TEST_F(CheckedFile, ItsSizeIsKnownBefore) {
  EXPECT_EQ(checked_bytes(views_of(state_), metadata_), std::filesystem::file_size(path_));
}

TEST_F(CheckedFile, AnyBitThatIsTurnedIsFound) {
  const std::string whole = bytes();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const std::size_t bit : {at % 8, std::size_t{5}}) {  // the latter makes zeros of the header's spaces
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1U << bit));
      replace(damaged);
      EXPECT_THROW(CheckedReader(path_).check_all(), DataError) << "byte " << at << ", bit " << bit;
    }
  }
}

TEST_F(CheckedFile, AnyTruncationIsFound) {
  const std::string whole = bytes();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    replace(whole.substr(0, length));
    EXPECT_THROW(CheckedReader(path_).check_all(), DataError) << length;
  }
}

TEST_F(CheckedFile, DamageIsNamed) {
  std::string damaged = bytes();
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  replace(damaged);
  CheckedReader reader(path_);
  try {
    reader.check_all();
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("part.safetensors"),
                                             testing::HasSubstr("tensor \"fc.weight\"")));
  }
}

TEST_F(CheckedFile, AFileWithoutChecksumsIsRefused) {
  write_safetensors(path_, state_, metadata_);
  EXPECT_THROW(CheckedReader{path_}, DataError);
}

}  // namespace
}  // namespace rookery
