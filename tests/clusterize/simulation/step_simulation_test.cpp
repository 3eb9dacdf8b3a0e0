#include "clusterize/simulation/step_simulation.hpp"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "clusterize/simulation/simulation.hpp"
#include "models/base/check.hpp"
#include "tests/clusterize/pipeline_support.hpp"
#include "trainer/schedule/schedule.hpp"

namespace rookery {
namespace {

TrainingTask task_with(int micro_batches, bool shares = false, bool clips = false) {
  TrainingSettings settings;
  settings.micro_batches = micro_batches;
  if (clips) settings.clip_gradient_norm = 1;
  if (!shares) return cnn_task(settings);
  TrainingTask task = tied_task();
  task.settings = settings;
  return task;
}

double step_of(const PipelineModel& model, const TrainingTask& task) {
  return simulate_step(training_program(model, sizes_of(task))).seconds;
}

TEST(StepSimulation, OfOneStageIsTheSumOfItsWork) {
  const TrainingTask task = task_with(4);
  PipelineModel model = pipeline_of(task, {0});
  model.work[0].forward = 1;
  model.work[0].backward = 2;
  model.work[0].update = 0.5;
  EXPECT_DOUBLE_EQ(step_of(model, task), 4 * 3 + 0.5);
  model.work[0].recompute = true;  // a second of the two is the forward pass again
  EXPECT_DOUBLE_EQ(step_of(model, task), 4 * 3 + 0.5);
}

// Stage 0 runs one micro-batch ahead; then the stages take turns without waiting. Behind the last B of
// stage 1, its W and the last B of stage 0 run at the same time.
TEST(StepSimulation, OfTwoEqualStagesIsAFullPipeline) {
  for (const int micro_batches : {1, 2, 4, 8}) {
    const TrainingTask task = task_with(micro_batches);
    PipelineModel model = pipeline_of(task, {0, cut_positions(task.graph).at(3)});
    for (StageWork& work : model.work)
      work = {.forward = 1, .backward = 2, .update = 0.5, .bytes_per_second = 1e18};
    EXPECT_NEAR(step_of(model, task), 1 + micro_batches * 3 + 1 + 0.5, 1e-9) << micro_batches;
  }
}

// Stages alike, F = B = W: what fills and empties the pipeline is (S - 1) (F + B), and with zb, whose W fill
// it, (S - 1) (F + B - W).
TEST(StepSimulation, GradientsOfWeightsFillTheBubble) {
  for (const int micro_batches : {4, 8}) {
    const TrainingTask task = task_with(micro_batches);
    for (const std::size_t stages : {1, 2, 4}) {
      const std::vector<OpId> positions = cut_positions(task.graph);
      std::vector<OpId> begins{0};
      for (std::size_t k = 1; k < stages; ++k) begins.push_back(positions.at(k));
      PipelineModel model = pipeline_of(task, begins);
      for (StageWork& work : model.work)
        work = {.forward = 1, .backward = 2, .update = 0.5, .bytes_per_second = 1e18};
      const double others = static_cast<double>(stages - 1);
      EXPECT_NEAR(step_of(model, task), 3 * micro_batches + 2 * others + 0.5, 1e-9);
      model.schedule.name = "zb";
      EXPECT_NEAR(step_of(model, task), 3 * micro_batches + others + 0.5, 1e-9) << stages;
    }
  }
}

// The norm of gradients is known a way after the last stage is done, unless updates are made ahead of it.
TEST(StepSimulation, ClippingWaitsForTheSquaresOfTheSlowest) {
  const TrainingTask task = task_with(4, false, true);
  const std::vector<OpId> positions = cut_positions(task.graph);
  PipelineModel model = pipeline_of(task, {0, positions.at(2), positions.at(4)});
  for (StageWork& work : model.work)
    work = {.forward = 1, .backward = 2, .update = 0.5, .bytes_per_second = 1e18};
  for (std::vector<FlowWay>& links : model.links)
    for (FlowWay& link : links) link.latency = 0.25;
  for (const char* schedule : {"1f1b", "zb"}) {
    model.schedule = {.name = schedule};
    model.clips_gradients = false;
    const double without = step_of(model, task);
    model.clips_gradients = true;
    EXPECT_NEAR(step_of(model, task), without + 0.25, 1e-9) << schedule;
    model.schedule.updates_ahead = true;
    EXPECT_NEAR(step_of(model, task), without, 1e-9) << schedule;
  }
}

TEST(StepSimulation, OfASlowLinkIsItsTransfers) {
  for (const int micro_batches : {1, 4}) {
    const TrainingTask task = task_with(micro_batches);
    PipelineModel model = pipeline_of(task, {0, cut_positions(task.graph).at(3)});
    const std::vector<StageRoutes> routes = stage_routes(model.stages, model.micro_batch);
    const double there = 1;  // seconds of an activation's transmission
    const double speed = static_cast<double>(routes[0].activation_bytes[1]) / there;
    const double back = static_cast<double>(routes[1].gradient_bytes[0]) / speed;
    for (StageWork& work : model.work) {
      work.forward = 0.01;
      work.backward = 0.02;
    }
    for (FlowWay* way : {&model.links[0][1], &model.links[1][0]}) {
      way->bytes_per_second = speed;
      way->latency = 0.25;
    }
    ASSERT_GT(back, 0.45);
    ASSERT_LT(back, 1);
    // One: F, there, F B, back, B W. Four: stage 0 does F0 F1 (B0 W0 F2) (B1 W1 F3) (B2 W2) (B3 W3), and an
    // activation leaves only when the gradient of the one two before is back, at 1.53 + back: the third
    // leaves at 1.56 + back, and so the fourth, right behind it, at 2.56 + back.
    EXPECT_NEAR(step_of(model, task), micro_batches == 1 ? 1.55 + back : 4.1 + 2 * back, 1e-9);
  }
}

// Three stages in a row: the middle one sends to both sides at once.
TEST(StepSimulation, ASharedConnectionSlowsBothItsTransfers) {
  const TrainingTask task = task_with(1);
  const std::vector<OpId> positions = cut_positions(task.graph);
  PipelineModel model = pipeline_of(task, {0, positions.at(2), positions.at(4)});
  const double free = step_of(model, task);
  model.work[1].bytes_per_second = 1e4;
  const std::vector<StageRoutes> routes = stage_routes(model.stages, model.micro_batch);
  // One micro-batch: one transfer after the other, each with the whole connection; what goes past the
  // middle, labels from the first stage to the last, is fast.
  const double bytes = static_cast<double>(routes[0].activation_bytes[1] + routes[1].activation_bytes[2] +
                                           routes[2].gradient_bytes[1] + routes[1].gradient_bytes[0]);
  EXPECT_NEAR(step_of(model, task) - free, bytes / 1e4, 1e-9);
}

TEST(StepSimulation, SmallerMicroBatchesTakeTheirShare) {
  const TrainingTask task = task_with(1);
  PipelineModel model = pipeline_of(task, {0});
  model.work[0].forward = 1;
  model.work[0].backward = 2;
  model.work[0].update = 0.5;
  const std::vector<std::int64_t> quarter{16};
  EXPECT_DOUBLE_EQ(simulate_step(training_program(model, quarter)).seconds, 0.75 + 0.5);
  const std::vector<std::int64_t> two{64, 16};
  EXPECT_DOUBLE_EQ(simulate_step(validation_pass(model, two)).seconds, 1.25);
}

TEST(StepSimulation, AStragglerComputesSlowly) {
  const TrainingTask task = task_with(2);
  PipelineModel model = pipeline_of(task, {0, cut_positions(task.graph).at(3)});
  for (StageWork& work : model.work) work = {.forward = 1, .backward = 2, .bytes_per_second = 1e18};
  const StepProgram program = training_program(model, sizes_of(task));
  const StepRun run = simulate_step(program, [](int node, int) { return node == 0 ? 1 : 3; });
  EXPECT_NEAR(run.computing[1], 3 * run.computing[0], 1e-9);
  // F of stage 0, all of stage 1 but its last W, then B and W of stage 0 beside that.
  EXPECT_NEAR(run.seconds, 1 + 18, 1e-9);
}

TEST(StepSimulation, TheNormComesBackBeforeTheUpdate) {
  const TrainingTask task = task_with(1, false, true);
  PipelineModel model = pipeline_of(task, {0, cut_positions(task.graph).at(3)});
  const double free = step_of(model, task);
  EXPECT_LT(free, 1e-9);
  for (auto& links : model.links) {
    for (FlowWay& way : links) way.latency = 1;
  }
  // Activation, gradient with the partial norm behind it, norm.
  EXPECT_NEAR(step_of(model, task), 3, 1e-9);
}

// The slowest stage is never idle once the pipeline is full, though its link takes as long again.
TEST(StepSimulation, AsyncStepsLastAsLongAsTheSlowestStage) {
  const TrainingTask task = task_with(1);
  PipelineModel model = pipeline_of(task, {0, cut_positions(task.graph).at(3)});
  model.schedule.name = "async";
  for (StageWork& work : model.work)
    work = {.forward = 1, .backward = 2, .update = 0.5, .bytes_per_second = 1e18};
  model.work[1] = {.forward = 2, .backward = 3, .update = 1, .bytes_per_second = 1e18};
  const StepProgram program = training_program(model, sizes_of(task), 12);
  const StepRun run = simulate_step(program);
  ASSERT_EQ(run.updated.size(), 12);
  for (std::size_t i = 3; i < 12; ++i) EXPECT_NEAR(run.updated[i] - run.updated[i - 1], 6, 1e-9);
  EXPECT_NEAR(run.seconds, 1 + 12 * 6, 1e-9);

  model.schedule.max_staleness = 0;  // one batch after the other
  const StepRun alone = simulate_step(training_program(model, sizes_of(task), 12));
  EXPECT_NEAR(alone.seconds, 12 * (1 + 2 + 1.5 + 2 + 0.5), 1e-9);
}

// Connections that hold the stages up, over ways as long as many batches: stages between others send
// gradients, too, once the first ones are there. What is simulated is what comes then.
TEST(StepSimulation, OfAsyncIsThatOfFullWays) {
  const TrainingTask task = task_with(1);
  const std::vector<OpId> positions = cut_positions(task.graph);
  PipelineModel model = pipeline_of(task, {0, positions.at(1), positions.at(2), positions.at(3)});
  constexpr double kBytesPerSecond = 7e4;
  for (StageWork& work : model.work)
    work = {.forward = 1, .backward = 2, .bytes_per_second = kBytesPerSecond};
  for (std::vector<FlowWay>& links : model.links) {
    for (FlowWay& way : links) way = {way.from, way.to, 30, kBytesPerSecond};
  }
  model.schedule = {.name = "async", .max_staleness = 1000, .planned = {90, 60, 30, 1}};
  const std::vector<std::int64_t> sizes = sizes_of(task);
  const auto seconds_of_step = [&](std::int64_t batches, std::size_t fill) {
    const StepProgram program = training_program(model, sizes, static_cast<int>(batches));
    return full_span(simulate_step(program), fill).step_seconds();
  };
  const double expected = seconds_of_step(2000, 800);
  EXPECT_GT(expected, 3.5) << "the stages alone take 3";
  ASSERT_EQ(batches_to_fill(model, 1), 90);
  EXPECT_NEAR(seconds_of_step(batches_to_simulate(model, 1), 90), expected, 0.02 * expected);
}

// With zb, and enough in flight, nobody waits at all once the pipeline is full: where W are late the first
// stage begins the next step before the last has ended. Of 1f1b the first stage ends last.
TEST(StepSimulation, StepsOfZbFollowEachOtherWithoutAGap) {
  const TrainingTask task = task_with(8);
  const std::vector<OpId> positions = cut_positions(task.graph);
  PipelineModel model = pipeline_of(task, {0, positions.at(1), positions.at(2), positions.at(3)});
  for (StageWork& work : model.work)
    work = {.forward = 1, .backward = 2, .update = 0.5, .bytes_per_second = 1e18};
  model.schedule = {.name = "zb", .planned = {7, 5, 3, 1}};
  ASSERT_TRUE(steps_overlap(model));
  const StepRun run = simulate_step(training_program(model, sizes_of(task), 4));
  ASSERT_EQ(run.updated.size(), 4);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_NEAR(run.updated[i] - run.updated[i - 1], 24.5, 1e-9);
  EXPECT_NEAR(full_span(run, 1).step_seconds(), 24.5, 1e-9);

  model.clips_gradients = true;
  EXPECT_FALSE(steps_overlap(model)) << "the norm is awaited";
  EXPECT_THROW(training_program(model, sizes_of(task), 4), BugError);
  model.schedule.updates_ahead = true;
  EXPECT_TRUE(steps_overlap(model));
  model.schedule = {.name = "1f1b"};
  EXPECT_FALSE(steps_overlap(model));
}

TEST(StepSimulation, ARingOfThreeAveragesInFourRounds) {
  const std::vector<AverageRing> rings{{.nodes = {0, 1, 2}, .bytes = 30}};
  const StepProgram program = averaging_round(rings, {10, 10, 10}, [](int from, int to) {
    return FlowWay{.from = from, .to = to, .latency = 0.5, .bytes_per_second = 10};
  });
  EXPECT_DOUBLE_EQ(simulate_step(program).seconds, 4 * (0.5 + 1));
}

TEST(StepSimulation, RingsOnOneConnectionShareIt) {
  const std::vector<AverageRing> rings{{.nodes = {0, 1}, .bytes = 20}, {.nodes = {0, 2}, .bytes = 20}};
  const StepProgram program = averaging_round(rings, {10, 10, 10}, [](int from, int to) {
    return FlowWay{.from = from, .to = to, .bytes_per_second = 10};
  });
  EXPECT_DOUBLE_EQ(simulate_step(program).seconds, 2 * 2);
}

// Two machines of two nodes each, 0 and 2 on the first.
TEST(StepSimulation, RingsBetweenTheSameMachinesShareTheirLink) {
  const std::vector<AverageRing> rings{{.nodes = {0, 1}, .bytes = 20}, {.nodes = {2, 3}, .bytes = 20}};
  const StepProgram program = averaging_round(rings, {1000, 1000}, [](int from, int to) {
    return FlowWay{.from = from % 2, .to = to % 2, .bytes_per_second = 10};
  });
  EXPECT_DOUBLE_EQ(simulate_step(program).seconds, 2 * 2);
}

// ---- whatever the machines ----

struct Case {
  TrainingTask task;
  PipelineModel model;
  std::int64_t batches = 1;
  int micro_batches = 1;
  StepProgram program;
};

Case random_case(std::uint64_t seed) {
  CounterRng rng(rng_key(seed, "step_simulation_test"), 0);
  const int micro_batches = 1 << rng.next_below(4);
  const bool is_async = rng.next_below(2) == 0;
  const bool clips = rng.next_below(3) == 0;
  const bool shares = rng.next_below(3) == 0;
  TrainingTask task = task_with(micro_batches, shares, clips);
  PipelineModel model = random_pipeline(task, 1 + static_cast<int>(rng.next_below(5)), rng);
  if (!is_async) {
    if (rng.next_below(2) == 0) model.schedule.name = "zb";
    StepProgram program = training_program(model, sizes_of(task));
    return {std::move(task), std::move(model), 1, micro_batches, std::move(program)};
  }
  model.schedule = {.name = "async", .max_staleness = static_cast<int>(rng.next_below(5))};
  const std::int64_t batches = 1 + rng.next_below(12);
  StepProgram program = training_program(model, sizes_of(task), static_cast<int>(batches));
  return {std::move(task), std::move(model), batches, micro_batches, std::move(program)};
}

TEST(AnyStep, IsNoShorterThanWhatItHasToDo) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Case one = random_case(seed);
    const StepRun run = simulate_step(one.program);
    const double least = run.seconds * (1 + 1e-9);
    for (const double computing : run.computing) EXPECT_LE(computing, least) << seed;
    std::vector<double> bytes(one.program.ways.size(), 0);
    for (const ProgramMessage& message : one.program.messages) bytes[message.way] += message.bytes;
    std::vector<double> out(one.model.stages.size(), 0);
    for (std::size_t way = 0; way < bytes.size(); ++way) {
      EXPECT_LE(bytes[way] / one.program.ways[way].bytes_per_second, least) << seed;
      out[one.program.ways[way].from] += bytes[way];
    }
    for (std::size_t node = 0; node < out.size(); ++node)
      EXPECT_LE(out[node] / one.program.connections[node], least) << seed;
    // One micro-batch through all stages and back; W of the later stages is nobody's to wait for. Without
    // parameters on the first ones nothing comes back to them.
    const std::vector<StageRoutes> routes = stage_routes(one.model.stages, one.model.micro_batch);
    double path = 0;
    bool comes_back = true;
    for (std::size_t stage = 0; stage < one.model.stages.size(); ++stage) {
      const StageWork& work = one.model.work[stage];
      const double repeated = work.recompute ? work.forward : 0;
      path += work.forward + repeated + (work.backward - repeated) / (stage == 0 ? 1 : 2);
      if (stage == 0) continue;
      comes_back &= routes[stage].gradient_bytes[stage - 1] > 0;
      for (const auto& [bytes_of_it, way] :
           {std::pair(routes[stage - 1].activation_bytes[stage], one.model.links[stage - 1][stage]),
            std::pair(routes[stage].gradient_bytes[stage - 1], one.model.links[stage][stage - 1])})
        path += way.latency + static_cast<double>(bytes_of_it) / way.bytes_per_second;
    }
    if (comes_back) {
      EXPECT_LE(path + one.model.work[0].update, least) << seed;
    }
  }
}

TEST(AnyStep, DoesEveryActionOnceInItsOrderAndAfterItsInputs) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Case one = random_case(seed);
    StepTrace trace;
    simulate_step(one.program, {}, &trace);
    std::map<std::tuple<int, Work, int>, WorkSpan> done;
    std::vector<double> free(one.model.stages.size(), 0);
    std::vector<std::vector<Action>> schedules(one.model.stages.size());
    for (const WorkSpan& span : trace.work) {
      EXPECT_TRUE(done.emplace(std::tuple(span.node, span.work, span.micro_batch), span).second) << seed;
      const auto node = static_cast<std::size_t>(span.node);
      EXPECT_GE(span.begin, free[node]) << seed;  // one thing after the other
      free[node] = span.end;
      const auto kind = static_cast<ActionKind>(span.work);
      if (kind == ActionKind::kUpdate) {
        schedules[node].push_back({kind, span.micro_batch, one.micro_batches - 1});
      } else {
        schedules[node].push_back(
            {kind, span.micro_batch / one.micro_batches, span.micro_batch % one.micro_batches});
      }
    }
    const auto count = static_cast<int>(one.model.stages.size());
    for (int stage = 0; stage < count; ++stage) {
      EXPECT_EQ(schedules[stage],
                actions(Schedule(one.model.schedule, stage, count, one.batches, one.micro_batches)));
    }
    EXPECT_EQ(trace.messages.size(), one.program.messages.size()) << seed;
    for (const MessageSpan& sent : trace.messages) {
      const ProgramMessage& message = one.program.messages[sent.message];
      const FlowWay& way = one.program.ways[message.way];
      EXPECT_LE(sent.begin + message.bytes / way.bytes_per_second, sent.sent * (1 + 1e-9)) << seed;
      EXPECT_DOUBLE_EQ(sent.sent + way.latency, sent.arrive) << seed;
      const bool forward = message.use == MessageUse::kActivation;
      if (!forward && message.use != MessageUse::kGradient) continue;
      const Work work = forward ? Work::kForward : Work::kBackwardInputs;
      EXPECT_GE(sent.begin, done.at({way.from, work, message.micro_batch}).end) << seed;
      EXPECT_LE(sent.arrive, done.at({way.to, work, message.micro_batch}).begin) << seed;
    }
  }
}

TEST(AnyStep, IsTheSameAgain) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Case one = random_case(seed);
    const StepRun first = simulate_step(one.program);
    const StepRun second = simulate_step(one.program);
    EXPECT_EQ(first.seconds, second.seconds);
    EXPECT_EQ(first.computing, second.computing);
  }
}

}  // namespace
}  // namespace rookery
