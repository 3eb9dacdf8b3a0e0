// Pipelines whose activations travel by their difference from the last ones of their samples: the same bits
// in every schedule, whenever a run goes on, and nearly as good as without.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/graph/ops/builder.hpp"
#include "tests/support/digits.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/trainer/encoding/owning_link.hpp"
#include "trainer/encoding/compressed_link.hpp"
#include "trainer/encoding/reconstructions.hpp"
#include "trainer/schedule/compute_turn.hpp"
#include "trainer/schedule/machine_order.hpp"
#include "trainer/schedule/work_trace.hpp"

namespace rookery {
namespace {

// An edge that skips stages, dropout, running statistics.
Graph model_of_deltas() {
  GraphBuilder b;
  ValueId x = b.input("input", {1, 8, 8});
  x = b.relu("relu_0", b.batch_norm("bn_0", b.conv2d("conv_0", x, 4)));
  const ValueId skipped = x;
  x = b.relu("relu_1", b.conv2d("conv_1", x, 4));
  x = b.relu("relu_2", b.add("add", b.conv2d("conv_2", x, 4), skipped));
  x = b.dropout("drop", b.flatten("flat", x), 0.1F);
  x = b.relu("relu_3", b.linear("hidden", x, 32));
  return b.finish(b.linear("classes", x, 10));
}

TrainingSettings delta_run(const std::string& encoding, int micro_batches = 4) {
  TrainingSettings settings;
  settings.loss = "cross_entropy";
  settings.epochs = 3;
  settings.batch_size = 100;
  settings.micro_batches = micro_batches;
  settings.optimizer = optimizer_defaults("adamw");
  settings.transport.activations = encoding;
  return settings;
}

// What the first stage does, and the Leaf's norms.
struct Watched final : RunLog {
  void after_gradients(std::int64_t /*step*/, double norm) override { norms.push_back(norm); }
  std::int64_t forwards_for_nothing() const {
    const auto count = [&](ActionKind kind) {
      return std::ranges::count_if(trace.actions(),
                                   [&](const TracedAction& action) { return action.action.kind == kind; });
    };
    return count(ActionKind::kForward) - count(ActionKind::kBackwardInputs);
  }
  std::vector<double> norms;
  WorkTrace trace;
};

PipelineResult train_deltas(const TrainingSettings& settings, std::size_t stages,
                            PipelineOptions options = {}, Watched* watched = nullptr) {
  const Dataset& data = digits();
  const Graph model = model_of_deltas();
  const std::vector<OpId> begins = even_cuts(model, settings.loss, data, stages);
  Graph whole = model;
  add_loss(whole, settings.loss, target_types(data, settings.loss));
  const std::vector<Stage> cuts = cut(whole, begins);
  const std::int64_t samples = std::ssize(split_dataset(data.size(), settings).train);
  const EdgeEncoding encoding(settings.transport, input_names(whole), samples);
  std::vector<Reconstructions*> kept(stages);
  options.make_links = [&](int count) {
    auto links = make_memory_links(count, std::chrono::seconds(60));
    for (int stage = 0; stage < count; ++stage) {
      auto own = std::make_unique<Reconstructions>(
          cuts[stage], encoding, SamplePlaces(settings, samples, one_cluster(settings.batch_size)),
          sent_again(settings.schedule, stage, count, decided_micro_batches(settings)));
      kept[stage] = own.get();
      links[stage] = std::make_unique<OwningLink>(std::move(links[stage]), stage, encoding, std::move(own));
    }
    return links;
  };
  options.further_state = [&](const Stage& stage) { return kept[stage.index]->state(); };
  const StagePlacement placement = placement_of(settings.schedule, static_cast<int>(stages));
  std::vector<std::unique_ptr<ComputeTurn>> turns;
  for (int machine = 0; placement.chunks > 1 && machine < placement.machines; ++machine)
    turns.push_back(std::make_unique<ComputeTurn>(settings.schedule, machine, placement.stages()));
  options.make_trainer_options = [&](const Stage& stage, Executable&, Link&, TrainerOptions made) {
    if (!turns.empty()) made.turn = turns[placement.machine_of(stage.index)].get();
    if (watched != nullptr && stage.is_root()) made.trace = &watched->trace;
    if (watched != nullptr && stage.is_leaf()) made.logs.push_back(watched);
    return made;
  };
  return run_pipeline(model, begins, settings, data, options);
}

void expect_same_training(const PipelineResult& found, const PipelineResult& expected) {
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.accuracies, expected.accuracies);
  EXPECT_TRUE(same_state(found.state, expected.state));
}

class DeltaTraining : public testing::TestWithParam<const char*> {};

TEST_P(DeltaTraining, IsNearlyAsGoodAndRepeatable) {
  const PipelineResult exact = train_deltas(delta_run("none"), 4);
  const PipelineResult first = train_deltas(delta_run(GetParam()), 4);
  EXPECT_FALSE(same_state(first.state, exact.state)) << "nothing was encoded";
  EXPECT_LT(first.losses.back(), exact.losses.back() + 0.1);
  EXPECT_NEAR(first.accuracies.back(), exact.accuracies.back(), 5);
  PipelineOptions more_threads;
  more_threads.threads = 3;
  expect_same_training(train_deltas(delta_run(GetParam()), 4, more_threads), first);
}

// Whether or not updates are taken back, and forwards run again: where about as many steps are clipped as are
// not.
TEST_P(DeltaTraining, HasTheSameBitsInEverySynchronousSchedule) {
  TrainingSettings settings = delta_run(GetParam(), 6);
  settings.clip_gradient_norm = 1e6;
  Watched unclipped;
  train_deltas(settings, 4, {}, &unclipped);
  std::ranges::sort(unclipped.norms);
  ASSERT_GT(unclipped.norms.size(), 20U);
  settings.clip_gradient_norm = unclipped.norms[unclipped.norms.size() / 2];
  const PipelineResult expected = train_deltas(settings, 4);
  for (const char* name : {"interleaved", "zb", "zbv"}) {
    for (const bool updates_ahead : {false, true}) {
      SCOPED_TRACE(testing::Message() << name << ", " << updates_ahead);
      settings.schedule = {.name = name, .updates_ahead = updates_ahead};
      if (updates_ahead && !delays_weights(settings.schedule)) continue;
      Watched found;
      expect_same_training(train_deltas(settings, 4, {}, &found), expected);
      EXPECT_EQ(found.forwards_for_nothing() > 0, updates_ahead);
    }
  }
}

TEST_P(DeltaTraining, GoesOnWithTheBitsOfOneUndisturbed) {
  const TrainingSettings settings = delta_run(GetParam());
  std::map<std::int64_t, Snapshot> snapshots;
  const ScratchFolder logs;
  PipelineOptions options;
  options.output = logs.path();
  options.snapshots = &snapshots;
  const PipelineResult whole = train_deltas(settings, 3, options);
  ASSERT_GT(snapshots.size(), 5U);
  options.snapshots = nullptr;
  for (const int share : {4, 2}) {
    const auto& [step, middle] = *std::next(snapshots.begin(), std::ssize(snapshots) / share);
    options.from = &middle;
    const PipelineResult rest = train_deltas(settings, 3, options);
    EXPECT_TRUE(same_state(rest.state, whole.state)) << "from step " << step;
  }
}

// Epochs of a few micro-batches, which follow each other without a gap.
TEST_P(DeltaTraining, OfAsyncIsTheSameHoweverOften) {
  TrainingSettings settings = delta_run(GetParam(), 1);
  settings.schedule.name = "async";
  settings.train_fraction = 0.01;
  settings.validate_every = 0;
  settings.epochs = 30;
  for (const std::int64_t batch : {100, 5}) {
    settings.batch_size = batch;
    const PipelineResult first = train_deltas(settings, 4);
    EXPECT_LT(first.losses.back(), first.losses.front());
    expect_same_training(train_deltas(settings, 4), first);
  }
}

INSTANTIATE_TEST_SUITE_P(Reconstructions, DeltaTraining, testing::Values(kInt8Delta, kInt4Delta),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace rookery
