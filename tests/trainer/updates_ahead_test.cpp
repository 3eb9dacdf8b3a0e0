// Updates that are made before the norm of gradients is known, and taken back where it was too large: the
// same bits as of stages that wait, whichever steps are clipped.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/rng.hpp"
#include "models/graph/ops/builder.hpp"
#include "tests/support/digits.hpp"
#include "tests/support/guarded_device.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/tied_model.hpp"
#include "trainer/schedule/compute_turn.hpp"
#include "trainer/schedule/machine_order.hpp"
#include "trainer/schedule/work_trace.hpp"

namespace rookery {
namespace {

// What forwards change, too: running statistics. Dropout; an edge that skips stages.
Graph skipping_model() {
  GraphBuilder b;
  ValueId x = b.input("input", {1, 8, 8});
  x = b.relu("relu_0", b.batch_norm("bn_0", b.conv2d("conv_0", x, 4)));
  const ValueId skipped = x;
  x = b.relu("relu_1", b.batch_norm("bn_1", b.conv2d("conv_1", x, 4)));
  x = b.batch_norm("bn_2", b.conv2d("conv_2", x, 4));
  x = b.relu("relu_2", b.add("add", x, skipped));
  x = b.dropout("drop", b.flatten("flat", x), 0.2F);
  return b.finish(b.linear("classes", x, 10));
}

TrainingSettings zb_run(int micro_batches) {
  TrainingSettings settings;
  settings.loss = "cross_entropy";
  settings.epochs = 2;
  settings.batch_size = 100;
  settings.micro_batches = micro_batches;
  settings.schedule.name = "zb";
  settings.optimizer = optimizer_defaults("adamw");
  settings.optimizer.learning_rate = 0.01;
  settings.clip_gradient_norm = 1e6;
  return settings;
}

class NormsByStep : public RunLog {
 public:
  void after_gradients(std::int64_t step, double norm) override { norms[step] = norm; }
  std::map<std::int64_t, double> norms;
};

// A run, and how many forwards each stage has run for nothing.
struct Traced {
  PipelineResult result;
  std::map<std::int64_t, double> norms;
  std::vector<std::int64_t> repeated;  // by stage
};

Traced run_traced(const TrainingSettings& settings, std::size_t stages, PipelineOptions options = {},
                  const std::function<bool(const RunState&)>& reads_state = {}) {
  std::vector<WorkTrace> traces(stages);
  NormsByStep kept;
  const StagePlacement placement = placement_of(settings.schedule, static_cast<int>(stages));
  std::vector<std::unique_ptr<ComputeTurn>> turns;
  for (int machine = 0; placement.chunks > 1 && machine < placement.machines; ++machine)
    turns.push_back(std::make_unique<ComputeTurn>(settings.schedule, machine, placement.stages()));
  options.make_trainer_options = [&](const Stage& stage, Executable&, Link&, TrainerOptions made) {
    made.trace = &traces[stage.index];
    if (!turns.empty()) made.turn = turns[placement.machine_of(stage.index)].get();
    if (stage.is_leaf()) made.logs.push_back(&kept);
    if (reads_state)
      made.reads_state = [&](const RunState& run, bool is_end) { return is_end || reads_state(run); };
    return made;
  };
  const Graph model = skipping_model();
  const auto begins = even_cuts(model, settings.loss, digits(), stages);
  Traced traced{.result = run_pipeline(model, begins, settings, digits(), options), .norms = kept.norms};
  for (const WorkTrace& trace : traces) {
    const auto count = [&](ActionKind kind) {
      return std::ranges::count_if(trace.actions(),
                                   [&](const TracedAction& action) { return action.action.kind == kind; });
    };
    traced.repeated.push_back(count(ActionKind::kForward) - count(ActionKind::kBackwardInputs));
  }
  return traced;
}

void expect_same_run(const PipelineResult& found, const PipelineResult& expected) {
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.accuracies, expected.accuracies);
  EXPECT_TRUE(same_state(found.state, expected.state));
  EXPECT_EQ(found.sample_digests.front(), expected.sample_digests.front());
  EXPECT_EQ(found.sample_digests.back(), expected.sample_digests.front());
}

// So that about as many steps are clipped as are not.
double middle_norm(const TrainingSettings& settings) {
  std::vector<double> norms;
  for (const auto& [step, norm] : run_traced(settings, 1).norms) norms.push_back(norm);
  std::ranges::nth_element(norms, norms.begin() + std::ssize(norms) / 2);
  return norms[norms.size() / 2];
}

class UpdatesAhead : public testing::TestWithParam<int> {};

TEST_P(UpdatesAhead, AreTakenBackToTheBit) {
  TrainingSettings settings = zb_run(GetParam());
  for (const double norm : {1e6, middle_norm(settings), 1e-3}) {
    settings.clip_gradient_norm = norm;
    settings.schedule.updates_ahead = false;
    const Traced expected = run_traced(settings, 1);
    settings.schedule.updates_ahead = true;
    for (const std::size_t stages : {1, 2, 3, 5}) {
      SCOPED_TRACE(testing::Message() << stages << " stages, norm " << norm);
      const Traced found = run_traced(settings, stages);
      expect_same_run(found.result, expected.result);
      // Nothing is where nothing is clipped, or every step.
      const bool is_some = norm != 1e6 && norm != 1e-3 && stages > 1;
      EXPECT_EQ(found.repeated.front() > 0, is_some);
      EXPECT_EQ(found.repeated.back(), 0) << "the last stage knows the norm in time";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(MicroBatches, UpdatesAhead, testing::Values(2, 4, 7));

// A machine's stages run their forwards again beside each other, before any of them has a backward.
TEST_P(UpdatesAhead, OfMachinesWithTwoStages) {
  TrainingSettings settings = zb_run(GetParam());
  for (const double norm : {1e6, middle_norm(settings), 1e-3}) {
    settings.clip_gradient_norm = norm;
    settings.schedule = {.name = "zb"};
    const Traced expected = run_traced(settings, 1);
    settings.schedule = {.name = "zbv", .updates_ahead = true};
    for (const std::size_t stages : {4, 6}) {
      SCOPED_TRACE(testing::Message() << stages << " stages, norm " << norm);
      // No more room than a plan says: for as many as the first stage has in flight.
      const auto links = [&](int count) {
        return make_memory_links(count, std::chrono::seconds(60), stages);
      };
      const Traced found = run_traced(settings, stages, {.make_links = links});
      expect_same_run(found.result, expected.result);
      const bool is_some = norm != 1e6 && norm != 1e-3;
      EXPECT_EQ(found.repeated.front() > 0, is_some);
      EXPECT_EQ(found.repeated.back(), 0);
    }
  }
}

TEST(UpdatesAhead, WithOtherNumbersInFlight) {
  TrainingSettings settings = zb_run(6);
  settings.clip_gradient_norm = middle_norm(settings);
  const Traced expected = run_traced(settings, 1);
  settings.schedule.updates_ahead = true;
  for (const std::vector<int>& planned : {std::vector{6, 6, 1}, {6, 2, 2}, {3, 2, 1}, {1, 1, 1}}) {
    settings.schedule.planned = planned;
    expect_same_run(run_traced(settings, 3).result, expected.result);
  }
}

// As few messages under way between two stages as a plan may say.
TEST(UpdatesAhead, TheNarrowestLinkIsWideEnough) {
  TrainingSettings settings = zb_run(4);
  settings.clip_gradient_norm = middle_norm(settings);
  const Traced expected = run_traced(settings, 1);
  settings.schedule.updates_ahead = true;
  const auto narrow = [](int stages) { return make_memory_links(stages, std::chrono::seconds(60), 2); };
  const Traced found = run_traced(settings, 4, {.make_links = narrow});
  expect_same_run(found.result, expected.result);
  EXPECT_GT(found.repeated.front(), 0);
}

class NeverComes final : public PendingTransfer {
 public:
  bool test() override { return false; }
  void wait() override { throw TransportError("the peer is lost"); }
};

// Over which the squares of a step do not come.
class LinkWithoutSquares final : public Link {
 public:
  LinkWithoutSquares(std::unique_ptr<Link> beneath, std::int64_t step)
      : beneath_(std::move(beneath)), step_(step) {}
  std::unique_ptr<PendingTransfer> begin_send(int to_rank, const MessageKey& key,
                                              ConstTensorView tensor) override {
    return beneath_->begin_send(to_rank, key, tensor);
  }
  std::unique_ptr<PendingTransfer> begin_receive(int from_rank, const MessageKey& key,
                                                 TensorView into) override {
    if (key.kind == MessageKind::kSquares && key.step == step_) return std::make_unique<NeverComes>();
    return beneath_->begin_receive(from_rank, key, into);
  }
  void flush() override { beneath_->flush(); }

 private:
  std::unique_ptr<Link> beneath_;
  const std::int64_t step_;
};

// What may still be taken back is not done: its weights are not saved as trained.
TEST(UpdatesAhead, AStepWhoseNormNeverComesIsNotDone) {
  TrainingSettings settings = zb_run(4);
  settings.epochs = 1;
  settings.schedule.updates_ahead = true;
  std::int64_t all = 0;
  std::int64_t done = 0;
  const auto look_into = [](std::int64_t& steps) {
    return [&steps](const Stage& stage, const Trainer& trainer) {
      if (stage.is_root()) steps = trainer.steps_done();
    };
  };
  run_traced(settings, 2, {.look_at_end = look_into(all)});
  const auto make_links = [&](int stages) {
    auto links = make_memory_links(stages, std::chrono::seconds(10));
    links[0] = std::make_unique<LinkWithoutSquares>(std::move(links[0]), all - 1);
    return links;
  };
  EXPECT_THROW(run_traced(settings, 2, {.make_links = make_links, .look_at_end = look_into(done)}),
               TransportError);
  EXPECT_GT(all, 1);
  EXPECT_EQ(done, all - 1);
}

// Whatever the cut, the micro-batches, the numbers in flight, the room of the links, and which steps are
// clipped.
TEST(UpdatesAhead, TrainTheSameBitsInAnyPipeline) {
  CounterRng rng(rng_key(7, "pipelines"), 0);
  const auto draw = [&](int least, int most) {
    return least + static_cast<int>(rng.next_below(static_cast<std::uint32_t>(most - least + 1)));
  };
  std::int64_t repeated = 0;
  for (int i = 0; i < 12; ++i) {
    TrainingSettings settings = zb_run(draw(2, 9));
    settings.seed = static_cast<std::uint64_t>(i);
    settings.clip_gradient_norm = middle_norm(settings);
    const Traced expected = run_traced(settings, 1);
    const int stages = draw(2, 6);
    settings.schedule.updates_ahead = true;
    settings.schedule.planned.assign(static_cast<std::size_t>(stages), 1);
    for (int k = stages - 1; k >= 0; --k) {
      const int next = k + 1 < stages ? settings.schedule.planned[static_cast<std::size_t>(k) + 1] : 1;
      settings.schedule.planned[static_cast<std::size_t>(k)] =
          std::min(*settings.micro_batches, next + draw(0, 3));
    }
    SCOPED_TRACE(testing::Message() << "run " << i << ", " << stages << " stages, " << *settings.micro_batches
                                    << " micro-batches, " << settings.schedule.planned.front()
                                    << " in flight");
    const auto room = static_cast<std::size_t>(draw(8, 64));
    const auto links = [&](int count) { return make_memory_links(count, std::chrono::seconds(60), room); };
    const Traced found = run_traced(settings, static_cast<std::size_t>(stages), {.make_links = links});
    expect_same_run(found.result, expected.result);
    repeated += found.repeated.front();
  }
  EXPECT_GT(repeated, 20);
}

TEST(UpdatesAhead, OnADeviceOfItsOwn) {
  TrainingSettings settings = zb_run(4);
  settings.epochs = 1;
  settings.clip_gradient_norm = middle_norm(settings);
  settings.schedule.updates_ahead = true;
  const Traced expected = run_traced(settings, 3);
  expect_same_run(run_traced(settings, 3, {.processor = &test::guarded_processor()}).result, expected.result);
}

// Whoever reads the state between two steps, as checkpoints do, finds that of steps that are done.
TEST(UpdatesAhead, AreFinalWhereTheStateIsRead) {
  TrainingSettings settings = zb_run(4);
  settings.clip_gradient_norm = middle_norm(settings);
  std::map<std::int64_t, Snapshot> expected;
  run_traced(settings, 1, {.snapshots = &expected});
  settings.schedule.updates_ahead = true;
  std::map<std::int64_t, Snapshot> found;
  const auto every_third = [](const RunState& run) { return run.step % 3 == 0; };
  const Traced run = run_traced(settings, 3, {.snapshots = &found}, every_third);
  EXPECT_GT(run.repeated.front(), 0);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [step, snapshot] : found) {
    if (step % 3 == 0) {
      EXPECT_TRUE(same_state(snapshot.training, expected.at(step).training)) << step;
    }
  }
}

TEST(UpdatesAhead, AreMadeWhereNothingButTheNormIsWaitedFor) {
  const TrainingSettings settings = zb_run(4);
  const auto may = [](const TrainingSettings& of, Graph model) {
    add_loss(model, of.loss);
    return may_update_ahead(of, model);
  };
  EXPECT_TRUE(may(settings, skipping_model()));
  TrainingSettings of_two_stages = settings;
  of_two_stages.schedule.name = "zbv";
  EXPECT_TRUE(may(of_two_stages, skipping_model()));
  EXPECT_FALSE(may(settings, tied_model({1, 8, 8}, 10)));
  TrainingSettings other = settings;
  other.clip_gradient_norm.reset();
  EXPECT_FALSE(may(other, skipping_model()));
  other = settings;
  other.schedule.name = "1f1b";
  EXPECT_FALSE(may(other, skipping_model()));
  other = settings;
  other.micro_batches = 1;
  EXPECT_FALSE(may(other, skipping_model()));
}

}  // namespace
}  // namespace rookery
