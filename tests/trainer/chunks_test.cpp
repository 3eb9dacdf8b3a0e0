// Machines that hold several stages of a cluster: whole runs have the bits of one node, and stages take
// turns.
#include "trainer/schedule/compute_turn.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "models/zoo/zoo.hpp"
#include "tests/support/digits.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/tied_model.hpp"
#include "trainer/schedule/machine_order.hpp"

namespace rookery {
namespace {

struct Machines {
  std::string schedule;
  int machines = 2;
  int chunks = 2;
};

TrainingSettings settings_with(int micro_batches) {
  TrainingSettings settings;
  settings.epochs = 1;
  settings.micro_batches = micro_batches;
  settings.optimizer.name = "adam";
  settings.optimizer.learning_rate = 0.01;
  return settings;
}

// On machines whose stages take turns.
PipelineResult run_on(const Machines& machines, const Graph& model, TrainingSettings settings) {
  settings.schedule.name = machines.schedule;
  if (machines.schedule == "interleaved") settings.schedule.chunks = machines.chunks;
  const StagePlacement placement = placement_on(settings.schedule, machines.machines);
  std::vector<std::unique_ptr<ComputeTurn>> turns;
  for (int machine = 0; machine < placement.machines; ++machine)
    turns.push_back(std::make_unique<ComputeTurn>(settings.schedule, machine, placement.stages()));
  PipelineOptions options;
  options.make_trainer_options = [&](const Stage& stage, Executable&, Link&, TrainerOptions made) {
    made.turn = turns[static_cast<std::size_t>(placement.machine_of(stage.index))].get();
    return made;
  };
  options.look_at_end = [&](const Stage&, const Trainer&) {
    if (std::current_exception() == nullptr) return;
    for (const auto& turn : turns) turn->abandon();
  };
  const auto stages = static_cast<std::size_t>(placement.stages());
  return run_pipeline(model, even_cuts(model, settings.loss, digits(), stages), settings, digits(), options);
}

PipelineResult run_alone(const Graph& model, const TrainingSettings& settings) {
  const std::vector<OpId> whole{0};
  return run_pipeline(model, whole, settings, digits());
}

class Chunks : public testing::TestWithParam<Machines> {
 protected:
  static void expect_bits_of_one_node(const Graph& model, const TrainingSettings& settings) {
    const PipelineResult expected = run_alone(model, settings);
    const PipelineResult made = run_on(GetParam(), model, settings);
    EXPECT_EQ(made.losses, expected.losses);
    EXPECT_EQ(made.accuracies, expected.accuracies);
    EXPECT_TRUE(same_state(made.state, expected.state));
    EXPECT_EQ(made.sample_digests.back(), expected.sample_digests.front());
  }
};

TEST_P(Chunks, TrainToTheBitsOfOneNode) {
  for (const int micro_batches : {1, 3, 8}) expect_bits_of_one_node(cnn_net(), settings_with(micro_batches));
}

TEST_P(Chunks, ClipByTheNormOfAllStages) {
  TrainingSettings settings = settings_with(4);
  settings.clip_gradient_norm = 0.5;
  expect_bits_of_one_node(cnn_net(), settings);
}

TEST_P(Chunks, ShareParametersAmongStages) {
  expect_bits_of_one_node(tied_model({1, 8, 8}, 10), settings_with(4));
}

INSTANTIATE_TEST_SUITE_P(Trainer, Chunks,
                         testing::Values(Machines{"interleaved", 2, 2}, Machines{"interleaved", 3, 2},
                                         Machines{"interleaved", 2, 3}, Machines{"zbv", 2, 2},
                                         Machines{"zbv", 3, 2}),
                         [](const auto& instance) {
                           const Machines& of = instance.param;
                           return of.schedule + "On" + std::to_string(of.machines) + "With" +
                                  std::to_string(of.chunks);
                         });

ScheduleSettings interleaved() {
  ScheduleSettings settings;
  settings.name = "interleaved";
  return settings;
}

// Each stage asks for its turns as soon as it can, and notes when it had one.
TEST(ComputeTurn, ComesInTheMachinesOrderStepByStep) {
  constexpr int kPlaces = 4;
  constexpr int kMicroBatches = 5;
  const ScheduleSettings settings = interleaved();
  const std::vector<StageAction> order = machine_order(settings, 0, kPlaces, kMicroBatches);
  ComputeTurn turn(settings, 0, kPlaces);
  std::vector<int> had;
  std::atomic<int> computing = 0;
  {
    std::vector<std::jthread> threads;
    for (const int stage : {0, 2}) {
      threads.emplace_back([&, stage] {
        for (int step = 7; step < 9; ++step) {
          for (const StageAction& action : order) {
            if (action.stage != stage) continue;
            const ComputeTurn::Hold hold = turn.take(stage, step, kMicroBatches);
            EXPECT_EQ(++computing, 1);
            had.push_back(stage);
            --computing;
          }
          const ComputeTurn::Hold update = turn.take_between();
          EXPECT_EQ(++computing, 1);
          --computing;
        }
      });
    }
  }
  std::vector<int> expected;
  for (int step = 0; step < 2; ++step)
    for (const StageAction& action : order) expected.push_back(action.stage);
  EXPECT_EQ(had, expected);
}

TEST(ComputeTurn, IsWaitedForNoLongerWhenAStageHasFailed) {
  ComputeTurn turn(interleaved(), 0, 4);
  std::jthread waiting([&] { const ComputeTurn::Hold hold = turn.take(2, 0, 4); });
  turn.abandon();  // stage 0, whose forward comes first, never takes it
}

}  // namespace
}  // namespace rookery
