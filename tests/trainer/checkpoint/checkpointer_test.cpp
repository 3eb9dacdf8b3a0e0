#include "trainer/checkpoint/checkpointer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/files/file_calls.hpp"
#include "models/base/files/files.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/pipeline.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;

// Two stages of cnn_net on the digits: 12 steps in 3 epochs, a checkpoint every 2 steps.
class CheckpointerTest : public testing::Test {
 protected:
  CheckpointerTest() {
    settings_.epochs = 3;
    settings_.batch_size = 300;
    settings_.checkpoint_every = "2 steps";
  }

  CheckpointOwner owner(int stage) const { return {folder_.path(), "0123456789abcdef", stage, kStages}; }

  // A run, perhaps one that goes on; with `stop_at` it ends as a stage does that is killed before this step.
  PipelineResult run(bool resume, std::optional<std::int64_t> stop_at = std::nullopt) {
    from_.reset();
    PipelineOptions options;
    options.make_trainer_options = [&](const Stage& stage, Executable& executable, Link& link,
                                       TrainerOptions made) {
      if (resume) made.from = go_on_from_newest(owner(stage.index), executable, link);
      if (stage.is_leaf()) from_ = made.from;
      auto checkpoints = std::make_shared<Checkpointer>(owner(stage.index), settings_, KernelChoice(),
                                                        executable, link, made.from ? made.from->step : 0);
      made.between_steps = [checkpoints, stop_at](const RunState& now) {
        checkpoints->between_steps(now);
        if (now.step == stop_at) throw DataError("killed");
      };
      return made;
    };
    const Graph model = cnn_net();
    return run_pipeline(model, even_cuts(model, settings_.loss, *digits_, kStages), settings_, *digits_,
                        options);
  }

  void expect_goes_on_to_the_same(std::int64_t from) {
    const PipelineResult rest = run(true);
    ASSERT_TRUE(from_.has_value());
    EXPECT_EQ(from_->step, from);
    EXPECT_EQ(rest.losses, std::vector<double>(whole_.losses.begin() + from, whole_.losses.end()));
    EXPECT_TRUE(same_state(rest.state, whole_.state));
  }

  void kill_at(std::int64_t step) { EXPECT_THROW(run(false, step), DataError); }

  static constexpr int kStages = 2;
  const ScratchFolder folder_;
  const std::unique_ptr<Dataset> digits_ = open_dataset("digits", ROOKERY_SOURCE_DIR "/node_data");
  TrainingSettings settings_;
  std::optional<RunState> from_;
  const PipelineResult whole_ = [this] {
    const Graph model = cnn_net();
    TrainingSettings settings;
    settings.epochs = 3;
    settings.batch_size = 300;
    return run_pipeline(model, std::vector<OpId>{0}, settings, *digits_);
  }();
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
    std::string bytes = read_file(path, 1 << 24);
    if (is_torn) bytes.resize(bytes.size() / 2);
    bytes[bytes.size() * 3 / 4] ^= 1;
    std::ofstream(path, std::ios::binary) << bytes;
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
