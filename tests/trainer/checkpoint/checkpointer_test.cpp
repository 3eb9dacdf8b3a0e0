#include "trainer/checkpoint/checkpointer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <mutex>
#include <optional>
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

  // Stage `asked` gets SIGTERM before step `when` is done; how the run has ended on every stage that ended
  // so.
  std::vector<StoppedRun> stop(int asked, std::int64_t when) {
    struct Ended {};
    std::vector<StoppedRun> ends;
    std::mutex mutex;
    PipelineOptions options;
    options.make_trainer_options = [&](const Stage& stage, Executable& executable, Link& link,
                                       TrainerOptions made) {
      auto done = std::make_shared<std::int64_t>(0);
      auto checkpoints =
          std::make_shared<Checkpointer>(owner(stage.index), settings_, KernelChoice(), executable,
                                         Agreement(link, stage.index, stage.count),
                                         RunCourse{.steps = 12, .stop_signal = [=, at = stage.index] {
                                                     return at == asked && *done >= when ? SIGTERM : 0;
                                                   }});
      made.between_steps = [&, checkpoints, done](const RunState& now, bool is_end) {
        *done = now.step;
        const auto stopped = checkpoints->between_steps(now, is_end);
        if (!stopped) return;
        const std::scoped_lock lock(mutex);
        ends.push_back(*stopped);
        throw Ended();
      };
      return made;
    };
    try {
      run_pipeline(model_, even_cuts(model_, settings_.loss, *digits_, kStages), settings_, *digits_,
                   options);
    } catch (const Ended&) {  // NOLINT(bugprone-empty-catch): it is in `ends`
    }
    return ends;
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

TEST_F(CheckpointerTest, ThoseOfARunBeforeArePutAside) {
  run(false);
  kill_at(3);
  EXPECT_THAT(part_steps(owner(0)), ElementsAre(2));
  EXPECT_TRUE(std::filesystem::exists(part_path(owner(0), 12).string() + ".1"));
  expect_goes_on_to_the_same(2);
}

TEST_F(CheckpointerTest, AKilledRunGoesOnToTheSameBits) {
  kill_at(7);
  expect_goes_on_to_the_same(6);
}

TEST_F(CheckpointerTest, AStoppedRunGoesOnWhereItStopped) {
  settings_.checkpoint_every = "1 h";
  for (int asked = 0; asked < kStages; ++asked) {
    for (const std::int64_t when : {1, 5, 8}) {
      std::filesystem::remove_all(checkpoints_folder(folder_.path()));
      const std::vector<StoppedRun> ends = stop(asked, when);
      ASSERT_EQ(ends.size(), kStages);
      for (const StoppedRun& end : ends) {
        EXPECT_EQ(end.request, (StopRequest{asked, SIGTERM}));
        EXPECT_EQ(end.step, ends[0].step);
        EXPECT_EQ(end.newest, end.step);
      }
      expect_goes_on_to_the_same(ends[0].step);
    }
  }
}

TEST_F(CheckpointerTest, StoppedInItsLastStepARunIsDone) {
  EXPECT_TRUE(stop(0, 11).empty());
  EXPECT_TRUE(stop(1, 11).empty());
  expect_goes_on_to_the_same(12);
}

TEST_F(CheckpointerTest, WhatCannotBeWrittenInTheEndIsSaid) {
  const FileCalls real = file_calls();
  file_calls().fsync = [](int /*descriptor*/) {
    errno = ENOSPC;
    return -1;
  };
  const std::vector<StoppedRun> ends = stop(1, 5);
  file_calls() = real;
  ASSERT_EQ(ends.size(), kStages);
  for (const StoppedRun& end : ends) EXPECT_FALSE(end.newest.has_value());
}

// Which may have been longer.
TEST_F(CheckpointerTest, ARunBegunAnewLeavesNothingOfTheOneBeforeAhead) {
  run(false);
  const std::vector<StoppedRun> ends = stop(0, 3);
  ASSERT_EQ(ends.size(), kStages);
  for (int stage = 0; stage < kStages; ++stage) EXPECT_EQ(part_steps(owner(stage)).back(), ends[0].step);
  expect_goes_on_to_the_same(ends[0].step);
}

TEST_F(CheckpointerTest, AnAsynchronousRunStopsAtNoStep) {
  settings_.schedule = {.name = "async"};
  EXPECT_FALSE(stops_between_steps(settings_));
  EXPECT_TRUE(stop(0, 1).empty());
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

// A disk that is full now and then, each time another node's: what all have is kept until all have a newer
// one.
TEST_F(CheckpointerTest, WhatAllHaveIsKeptWhileNodesTakeTurnsWithFullDisks) {
  settings_.keep_checkpoints = 1;
  const FileCalls real = file_calls();
  file_calls().rename = [&](const char* from, const char* to) {
    const std::filesystem::path part = to;
    const bool is_full =
        part == part_path(owner(0), 4) || part == part_path(owner(1), 6) || part == part_path(owner(0), 8);
    if (!is_full) return real.rename(from, to);
    errno = ENOSPC;
    return -1;
  };
  EXPECT_THROW(run(false, 9), DataError);
  file_calls() = real;
  EXPECT_THAT(part_steps(owner(0)), ElementsAre(2, 6));
  EXPECT_THAT(part_steps(owner(1)), ElementsAre(2, 4, 8));
  expect_goes_on_to_the_same(2);
}

}  // namespace
}  // namespace rookery
