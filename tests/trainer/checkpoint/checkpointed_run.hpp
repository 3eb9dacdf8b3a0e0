// Runs of two stages on the digits that write checkpoints, and can be killed.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "models/base/error.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/repository.hpp"
#include "trainer/checkpoint/checkpointer.hpp"

namespace rookery {

// 12 steps in 3 epochs, a checkpoint every 2 steps.
class CheckpointedRun : public testing::Test {
 protected:
  explicit CheckpointedRun(Graph model = cnn_net()) : model_(std::move(model)) {
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
      if (resume)
        made.from = go_on_from_newest(owner(stage.index), &executable, Agreement(link, stage.index, kStages));
      if (stage.is_leaf()) from_ = made.from;
      auto checkpoints = std::make_shared<Checkpointer>(
          owner(stage.index), settings_, KernelChoice(), executable, Agreement(link, stage.index, kStages),
          RunCourse{.from = made.from.value_or(RunState()), .steps = 12});
      made.between_steps = [checkpoints, stop_at](const RunState& now, bool is_end) {
        checkpoints->between_steps(now, is_end);
        if (now.step == stop_at) throw DataError("killed");
      };
      return made;
    };
    return run_pipeline(model_, even_cuts(model_, settings_.loss, *digits_, kStages), settings_, *digits_,
                        options);
  }

  void kill_at(std::int64_t step) { EXPECT_THROW(run(false, step), DataError); }

  static constexpr int kStages = 2;
  const Graph model_;
  const ScratchFolder folder_;
  const std::unique_ptr<Dataset> digits_ = open_dataset("digits", kNodeData);
  TrainingSettings settings_;
  std::optional<RunState> from_;  // where the last run went on, as its Leaf says
};

}  // namespace rookery
