#include "trainer/checkpoint/checkpointer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/files/file_calls.hpp"
#include "tests/support/damaged_file.hpp"
#include "tests/trainer/checkpoint/checkpointed_run.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;

class CheckpointerTest : public CheckpointedRun {
 protected:
  void expect_goes_on_to_the_same(std::int64_t from) {
    const PipelineResult rest = run(true);
    ASSERT_TRUE(from_.has_value());
    EXPECT_EQ(from_->step, from);
    EXPECT_EQ(rest.losses, std::vector<double>(whole_.losses.begin() + from, whole_.losses.end()));
    EXPECT_TRUE(same_state(rest.state, whole_.state));
  }

  const PipelineResult whole_ =
      run_pipeline(model_, std::vector<OpId>{0}, settings_, *digits_);  // without checkpoints
};

TEST_F(CheckpointerTest, TheNewestStay) {
  run(false);
  for (int stage = 0; stage < kStages; ++stage) {
    // When the last was begun all had that of step 10; which of both is older than three others stays till
    // then.
    EXPECT_THAT(part_steps(owner(stage)), ElementsAre(6, 8, 10, 12));
  }
  EXPECT_FALSE(std::filesystem::exists(checkpoints_folder(folder_.path()) / "4"));
}

TEST_F(CheckpointerTest, AKilledRunGoesOnToTheSameBits) {
  kill_at(7);
  expect_goes_on_to_the_same(6);
}

TEST_F(CheckpointerTest, ARunThatIsDoneIsDone) {
  run(false);
  expect_goes_on_to_the_same(12);
}

TEST_F(CheckpointerTest, WithoutACheckpointItBegins) {
  const PipelineResult result = run(true);
  EXPECT_FALSE(from_.has_value());
  EXPECT_EQ(result.losses, whole_.losses);
}

TEST_F(CheckpointerTest, WhereOnePartIsMissingTheOneBeforeIsTaken) {
  kill_at(7);
  std::filesystem::remove(part_path(owner(1), 6));
  expect_goes_on_to_the_same(4);
}

TEST_F(CheckpointerTest, WhereOnePartIsDamagedTheOneBeforeIsTaken) {
  for (const bool is_torn : {false, true}) {
    std::filesystem::remove_all(checkpoints_folder(folder_.path()));
    kill_at(7);
    const std::filesystem::path path = part_path(owner(0), 6);
    const std::uintmax_t half = std::filesystem::file_size(path) / 2;
    if (is_torn) {
      std::filesystem::resize_file(path, half);
    } else {
      flip_bit(path, static_cast<std::streamoff>(half / 2));
    }
    expect_goes_on_to_the_same(4);
  }
}

TEST_F(CheckpointerTest, APartOfAnotherStepIsNotTaken) {
  kill_at(7);
  std::filesystem::copy_file(part_path(owner(1), 4), part_path(owner(1), 6),
                             std::filesystem::copy_options::overwrite_existing);
  expect_goes_on_to_the_same(4);
}

TEST_F(CheckpointerTest, PartsOfOtherPlansAreLeftAlone) {
  kill_at(7);
  const CheckpointOwner other{folder_.path(), "fedcba9876543210", 0, kStages};
  std::filesystem::copy_file(part_path(owner(0), 2), part_path(other, 2));
  run(true);
  EXPECT_THAT(part_steps(other), ElementsAre(2));
}

TEST_F(CheckpointerTest, WithoutAnyThatIsWholeNothingIsTrained) {
  kill_at(3);
  std::filesystem::resize_file(part_path(owner(0), 2), 100);
  EXPECT_THROW(run(true), DataError);
}

TEST_F(CheckpointerTest, OfAnotherOptimizerItIsRefused) {
  kill_at(3);
  settings_.optimizer = optimizer_defaults("sgd");
  settings_.optimizer.momentum = 0.9;
  EXPECT_THROW(run(true), DataError);
}

TEST_F(CheckpointerTest, OnAFullDiskTrainingGoesOnAndTheOlderOnesStay) {
  kill_at(5);
  const FileCalls real = file_calls();
  file_calls().fsync = [](int /*descriptor*/) {
    errno = ENOSPC;
    return -1;
  };
  const PipelineResult result = run(true);
  file_calls() = real;
  EXPECT_EQ(result.losses.size(), 8U);
  EXPECT_TRUE(same_state(result.state, whole_.state));
  for (int stage = 0; stage < kStages; ++stage) EXPECT_THAT(part_steps(owner(stage)), ElementsAre(2, 4));
  expect_goes_on_to_the_same(4);
}

}  // namespace
}  // namespace rookery
