#include "clusterize/plan/trained_file.hpp"

#include <gmock/gmock.h>

#include <limits>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "tests/support/damaged_file.hpp"
#include "tests/support/failing_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The last stage of two, with one parameter.
class TrainedFileTest : public testing::Test {
 protected:
  TrainedFileTest() {
    node_.node = "node_1";
    node_.plan_id = "0123456789abcdef";
    node_.address = "127.0.0.1:8081";
    node_.stage = 1;
    node_.stages = 2;
    make_directories(stage_folder(node_data_, node_));
    make_directories(elsewhere_);
    state_.emplace("weight", Tensor(DType::kF32, {4}));
  }

  std::string problem(TrainedFile& file) {
    try {
      file.write(views_of(state_), 17, "", {elsewhere_});
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  }
  static std::string problem_of(const std::filesystem::path& path) {
    try {
      read_trained(path);
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  }
  bool is_saved() const { return std::filesystem::exists(trained_path(node_data_, node_)); }

  const ScratchFolder scratch_;
  const std::filesystem::path node_data_ = scratch_.path() / "node_data";
  const std::filesystem::path elsewhere_ = scratch_.path() / "elsewhere";
  NodeMetadata node_;
  StateDict state_;
};

TEST_F(TrainedFileTest, IsWrittenWithoutADescriptorToSpare) {
  FailingFiles disk;
  TrainedFile file(node_data_, node_, views_of(state_));
  disk.descriptors = 0;
  EXPECT_EQ(problem(file), "no error");
  EXPECT_TRUE(is_saved());
}

TEST_F(TrainedFileTest, WhatFailsOnceIsWrittenInItsPlaceAllTheSame) {
  FailingFiles disk;
  TrainedFile file(node_data_, node_, views_of(state_));
  disk.failing_flushes = 1;
  EXPECT_EQ(problem(file), "no error");
  EXPECT_TRUE(is_saved());
}

TEST_F(TrainedFileTest, WhatFailsAgainIsWrittenElsewhereAndSaysWhere) {
  FailingFiles disk;
  TrainedFile file(node_data_, node_, views_of(state_));
  disk.failing_flushes = 2;
  const std::filesystem::path saved = elsewhere_ / "trained_node_1_0123456789abcdef.safetensors";
  EXPECT_THAT(problem(file), AllOf(HasSubstr("trained.safetensors: cannot flush: Input/output error; "),
                                   HasSubstr("the trained weights of node_1 are in " + saved.string() +
                                             ": move them to " + trained_path(node_data_, node_).string())));
  EXPECT_FALSE(is_saved());
  EXPECT_TRUE(read_safetensors(saved).tensors.contains("weight"));
}

TEST_F(TrainedFileTest, WhatFindsNoRoomAnywhereIsToldAndLeavesNoHalfOfAFile) {
  FailingFiles disk;
  TrainedFile file(node_data_, node_, views_of(state_));
  disk.room = 20;  // bytes: torn within the header
  EXPECT_THAT(problem(file), AllOf(HasSubstr("No space left on device"),
                                   HasSubstr("the trained weights of node_1 are lost")));
  EXPECT_FALSE(is_saved());
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere_));
  EXPECT_TRUE(std::filesystem::is_empty(stage_folder(node_data_, node_)));
}

TEST_F(TrainedFileTest, RoomIsTakenBeforehand) {
  FailingFiles disk;
  disk.room = 10;
  EXPECT_THROW(TrainedFile(node_data_, node_, views_of(state_)), DataError);
}

TEST_F(TrainedFileTest, TheRoomIsThatOfTheLongestFile) {
  for (int i = 0; i < 50; ++i) state_.emplace(fmt::format("\"{}\"", i), Tensor(DType::kF32, {}));
  FailingFiles disk;
  TrainedFile file(node_data_, node_, views_of(state_));
  file.write(views_of(state_), std::numeric_limits<std::int64_t>::max(), "0123456789abcdef", {});
  EXPECT_EQ(disk.reserved, std::filesystem::file_size(trained_path(node_data_, node_)));
}

TEST_F(TrainedFileTest, ComesBackAsItWasWritten) {
  write_trained(node_data_, node_, state_, 17);
  const SafetensorsFile file = read_trained(trained_path(node_data_, node_));
  EXPECT_EQ(file.metadata.at("step"), "17");
  EXPECT_FALSE(file.metadata.contains("checksums"));
  EXPECT_TRUE(file.tensors.contains("weight"));
}

TEST_F(TrainedFileTest, AnyBitThatIsFlippedIsRefused) {
  write_trained(node_data_, node_, state_, 17);
  const std::filesystem::path path = trained_path(node_data_, node_);
  const auto bytes = static_cast<std::streamoff>(std::filesystem::file_size(path));
  for (std::streamoff at = 1; at <= bytes; ++at) {
    flip_bit(path, at);
    EXPECT_THROW(read_trained(path), DataError) << at << " bytes before its end";
    flip_bit(path, at);
  }
  flip_bit(path);
  EXPECT_THAT(problem_of(path), AllOf(HasSubstr(path.string()), HasSubstr("damaged: tensor \"weight\"")));
}

TEST_F(TrainedFileTest, OfVersion1ItHasNoChecksums) {
  write_trained(node_data_, node_, state_, 17);
  const std::filesystem::path path = trained_path(node_data_, node_);
  Metadata metadata = read_trained(path).metadata;
  metadata["version"] = "1";
  write_safetensors(path, state_, metadata);
  EXPECT_EQ(read_trained(path).metadata, metadata);
  EXPECT_TRUE(read_trained(path).tensors.contains("weight"));
}

TEST_F(TrainedFileTest, WhatIsNoneIsRefused) {
  const std::filesystem::path path = trained_path(node_data_, node_);
  const auto refused = [&](const Metadata& metadata) {
    write_safetensors(path, state_, metadata);
    return problem_of(path);
  };
  EXPECT_THAT(refused({}), AllOf(HasSubstr(path.string()), HasSubstr("its metadata has no 'format'")));
  EXPECT_THAT(refused({{"format", "pt"}}), HasSubstr("this is not a trained submodel"));
  EXPECT_THAT(refused({{"format", "rookery.trained"}}), HasSubstr("its metadata has no 'version'"));
  EXPECT_THAT(refused({{"format", "rookery.trained"}, {"version", "3"}}),
              HasSubstr("format version 3, this program knows up to 2: use a newer Rookery"));
  EXPECT_THAT(refused({{"format", "rookery.trained"}, {"version", "2"}}),
              HasSubstr("its metadata has no 'metadata_checksum'"));
}

}  // namespace
}  // namespace rookery
