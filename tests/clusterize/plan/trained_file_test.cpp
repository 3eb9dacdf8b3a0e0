#include "clusterize/plan/trained_file.hpp"

#include <gmock/gmock.h>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/io/safetensors/safetensors.hpp"
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

}  // namespace
}  // namespace rookery
