// Machines with several stages each (trainer/schedule/machine_order.hpp), as they are simulated.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "clusterize/costs/step_parts.hpp"
#include "clusterize/simulation/critical_path.hpp"
#include "clusterize/simulation/simulation.hpp"
#include "models/base/check.hpp"
#include "models/base/rng.hpp"
#include "models/graph/ops/builder.hpp"
#include "tests/clusterize/chain_model.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;

constexpr double kFreeWay = 1e18;  // bytes per second

// A layer to each.
std::vector<Stage> layers_on(int stages) {
  GraphBuilder builder;
  ValueId x = builder.input("input", {4});
  for (int k = 0; k < stages; ++k) x = builder.linear(fmt::format("layer_{}", k), x, 4);
  Graph graph = builder.finish(x);
  add_loss(graph, "mse");
  std::vector<OpId> begins;
  for (std::size_t op = 0; op < graph.ops().size(); ++op)
    if (graph.ops()[op].type == "Gemm") begins.push_back(static_cast<OpId>(op));
  return cut(graph, begins);
}

// All alike, and nothing takes time on its way.
PipelineModel alike_pipeline(const ScheduleSettings& schedule, int machines, double forward = 1) {
  const int stages = placement_on(schedule, machines).stages();
  PipelineModel model{.schedule = schedule, .stages = layers_on(stages)};
  for (int stage = 0; stage < stages; ++stage) {
    model.work.push_back({.forward = forward, .backward = 2 * forward, .bytes_per_second = kFreeWay});
    model.links.emplace_back(stages, FlowWay{.bytes_per_second = kFreeWay});
  }
  return model;
}

StepProgram shared_program(const PipelineModel& model, int micro_batches) {
  return training_program(model, std::vector<std::int64_t>(static_cast<std::size_t>(micro_batches), 1));
}

double shared_step(const PipelineModel& model, int micro_batches) {
  return simulate_step(shared_program(model, micro_batches)).seconds;
}

double drawn_between(double least, double most, CounterRng& rng) {
  return least + (most - least) * static_cast<double>(rng.next_float());
}

const std::vector<ScheduleSettings>& chunk_schedules() {
  static const std::vector<ScheduleSettings> all{
      {.name = "interleaved"}, {.name = "interleaved", .chunks = 3}, {.name = "zbv"}};
  return all;
}

struct SharedCase {
  PipelineModel model;
  int micro_batches = 1;
};

// Machines and ways that differ widely; updates and connections only where that is asked for.
SharedCase random_shared_case(std::uint64_t seed, bool is_free) {
  CounterRng rng(rng_key(seed, "shared_machines_test"), 0);
  const ScheduleSettings& schedule = chunk_schedules()[rng.next_below(3)];
  SharedCase made{.model = alike_pipeline(schedule, 2 + static_cast<int>(rng.next_below(3))),
                  .micro_batches = 1 + static_cast<int>(rng.next_below(12))};
  const StagePlacement placement = made.model.placement();
  for (StageWork& work : made.model.work) {
    work.forward = drawn_between(0.1, 2, rng);
    work.recompute = rng.next_below(3) == 0;
    work.backward = drawn_between(0.1, 3, rng) + (work.recompute ? work.forward : 0);
    if (is_free) continue;
    work.update = drawn_between(0, 2, rng);
    work.bytes_per_second = drawn_between(10, 200, rng);
  }
  made.model.clips_gradients = !is_free && rng.next_below(2) == 0;
  std::map<std::pair<int, int>, double> latencies;  // by machines
  for (int from = 0; from < placement.machines; ++from)
    for (int to = 0; to < placement.machines; ++to) latencies[{from, to}] = drawn_between(0, 2, rng);
  for (int from = 0; from < placement.stages(); ++from) {
    for (int to = 0; to < placement.stages(); ++to) {
      FlowWay& way = made.model.links[from][to];
      way.latency = latencies.at({placement.machine_of(from), placement.machine_of(to)});
      if (!is_free) way.bytes_per_second = 200;
    }
  }
  return made;
}

// ---- how long a step takes ----

// What fills and empties the pipeline is (P - 1) (F + B) of a chunk, not of all that a machine has. B is all
// of backward here, which it is where it only computes the forward pass again.
TEST(SharedMachines, InterleavedFillsThePipelineByChunks) {
  for (const int chunks : {2, 3, 4}) {
    for (const int machines : {2, 3, 4}) {
      for (const int groups : {1, 2, 4}) {
        const int micro_batches = groups * machines;
        PipelineModel model = alike_pipeline({.name = "interleaved", .chunks = chunks}, machines);
        for (StageWork& work : model.work)
          work = {.forward = 1, .backward = 1, .recompute = true, .bytes_per_second = kFreeWay};
        EXPECT_NEAR(shared_step(model, micro_batches), 2 * chunks * micro_batches + 2 * (machines - 1), 1e-9)
            << chunks << " chunks, " << machines << " machines, " << micro_batches;
      }
    }
  }
}

// F = B = W: the last machine begins P - 1 later than the first, and none waits until it has done everything.
TEST(SharedMachines, ZbvHasNoBubbleButItsBeginning) {
  for (const int machines : {2, 3, 4, 6}) {
    for (const int more : {0, 1, 5}) {
      const int micro_batches = 2 * machines - 1 + more;
      EXPECT_NEAR(shared_step(alike_pipeline({.name = "zbv"}, machines), micro_batches),
                  6 * micro_batches + machines - 1, 1e-9)
          << machines << " machines, " << micro_batches;
    }
  }
}

// And so one step follows the other without a gap.
TEST(SharedMachines, ZbvStepsOverlap) {
  for (const int machines : {2, 4, 6}) {
    const int micro_batches = 2 * machines;
    const PipelineModel model = alike_pipeline({.name = "zbv"}, machines);
    const std::vector<std::int64_t> sizes(static_cast<std::size_t>(micro_batches), model.micro_batch);
    const StepRun run = simulate_step(training_program(model, sizes, 4));
    ASSERT_EQ(run.updated.size(), 4);
    EXPECT_NEAR(full_span(run, 1).step_seconds(), 6 * micro_batches, 1e-9) << machines;
  }
}

TEST(SharedMachines, UpdatesTakeTurns) {
  PipelineModel model = alike_pipeline({.name = "interleaved"}, 2);
  for (StageWork& work : model.work) work = {.update = 1, .bytes_per_second = kFreeWay};
  EXPECT_NEAR(shared_step(model, 2), 2, 1e-9);
}

// Those of the first stages, which are ready, go first.
TEST(SharedMachines, ForwardsOfValidationRunInNoOrder) {
  const PipelineModel model = alike_pipeline({.name = "interleaved"}, 2);
  const StepProgram program = validation_pass(model, std::vector<std::int64_t>(5, 1));
  EXPECT_NEAR(simulate_step(program).seconds, 2 * 5 + 1, 1e-9);
}

TEST(SharedMachines, AClusterOfOneMachineHasNoneToShare) {
  for (const ScheduleSettings& schedule : chunk_schedules()) {
    const StepProgram program = shared_program(alike_pipeline(schedule, 1), 4);
    EXPECT_TRUE(program.machine_of.empty());
    EXPECT_EQ(program.connections.size(), 1U);
    EXPECT_NEAR(simulate_step(program).seconds, 12, 1e-9);
  }
}

// ---- as a simpler simulator has it: machines keep their order, ways have latencies alone ----

using OrderBegins = std::map<std::tuple<int, Work, int>, double>;  // of stage, work, micro-batch

class OrderSimulator {
 public:
  explicit OrderSimulator(const SharedCase& one) : model_(one.model), placement_(model_.placement()) {
    for (int machine = 0; machine < placement_.machines; ++machine)
      orders_.push_back(machine_order(model_.schedule, machine, placement_.stages(), one.micro_batches));
  }

  OrderBegins run() {
    std::vector<std::size_t> next(orders_.size(), 0);
    std::vector<double> free(orders_.size(), 0);
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (std::size_t machine = 0; machine < orders_.size(); ++machine) {
        if (next[machine] == orders_[machine].size()) continue;
        const StageAction& action = orders_[machine][next[machine]];
        const std::optional<double> ready = ready_at(action);
        if (!ready) continue;
        const double begin = std::max(*ready, free[machine]);
        begins_[{action.stage, work_of(action), action.micro_batch}] = begin;
        free[machine] = begin + seconds(action.stage, work_of(action));
        ++next[machine];
        goes_on = true;
      }
    }
    return begins_;
  }

 private:
  static Work work_of(const StageAction& action) { return static_cast<Work>(action.kind); }

  double seconds(int stage, Work work) const {
    const StageWork& own = model_.work[stage];
    const double repeated = own.recompute ? own.forward : 0;
    if (work == Work::kForward) return own.forward;
    return (own.backward - repeated) / 2 + (work == Work::kBackwardInputs ? repeated : 0);
  }

  std::optional<double> behind(int stage, Work work, int micro_batch) const {
    const auto found = begins_.find({stage, work, micro_batch});
    return found == begins_.end() ? std::nullopt : std::optional(found->second + seconds(stage, work));
  }

  std::optional<double> ready_at(const StageAction& action) const {
    if (action.kind == ActionKind::kBackwardWeights)
      return behind(action.stage, Work::kBackwardInputs, action.micro_batch);
    const bool is_forward = action.kind == ActionKind::kForward;
    if (!is_forward && action.stage + 1 == placement_.stages())
      return behind(action.stage, Work::kForward, action.micro_batch);
    if (is_forward && action.stage == 0) return 0;
    const int from = action.stage + (is_forward ? -1 : 1);
    std::optional<double> sent = behind(from, work_of(action), action.micro_batch);
    if (!sent) return std::nullopt;
    *sent += model_.links[from][action.stage].latency;
    if (!is_forward || action.stage + 1 < placement_.stages()) return sent;
    // Labels go from the first stage past all others.
    return std::max(*sent,
                    *behind(0, Work::kForward, action.micro_batch) + model_.links[0][action.stage].latency);
  }

  const PipelineModel& model_;
  const StagePlacement placement_;
  std::vector<std::vector<StageAction>> orders_;  // by machine
  OrderBegins begins_;
};

TEST(SharedMachines, KeepTheirOrderAsASimplerSimulatorHasIt) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const SharedCase one = random_shared_case(seed, true);
    const OrderBegins expected = OrderSimulator(one).run();
    StepTrace trace;
    simulate_step(shared_program(one.model, one.micro_batches), {}, &trace);
    std::size_t computed = 0;
    for (const WorkSpan& span : trace.work) {
      if (span.work == Work::kUpdate) continue;
      ++computed;
      EXPECT_NEAR(span.begin, expected.at({span.node, span.work, span.micro_batch}), 1e-9) << seed;
    }
    EXPECT_EQ(computed, expected.size()) << seed;
    EXPECT_EQ(computed, 3 * one.model.stages.size() * static_cast<std::size_t>(one.micro_batches)) << seed;
  }
}

// ---- whatever the machines ----

TEST(SharedMachines, ComputeOneThingAtATimeInTheirOrder) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const SharedCase one = random_shared_case(seed, false);
    const StagePlacement placement = one.model.placement();
    StepTrace trace;
    simulate_step(shared_program(one.model, one.micro_batches), {}, &trace);
    std::vector<double> free(static_cast<std::size_t>(placement.machines), 0);
    std::vector<std::vector<StageAction>> done(free.size());
    std::map<int, int> updates;
    for (const WorkSpan& span : trace.work) {
      const auto machine = static_cast<std::size_t>(placement.machine_of(span.node));
      EXPECT_GE(span.begin, free[machine]) << seed;
      free[machine] = span.end;
      if (span.work == Work::kUpdate)
        ++updates[span.node];
      else
        done[machine].push_back({span.node, static_cast<ActionKind>(span.work), span.micro_batch});
    }
    EXPECT_EQ(std::ssize(updates), placement.stages()) << seed;
    for (std::size_t machine = 0; machine < done.size(); ++machine) {
      EXPECT_EQ(done[machine], machine_order(one.model.schedule, static_cast<int>(machine),
                                             placement.stages(), one.micro_batches))
          << seed;
    }
  }
}

// Machines of one stage each, as if they could be shared.
TEST(SharedMachines, OfOneStageAreAsIfTheyWereNotShared) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SharedCase one = random_shared_case(seed, false);
    one.model.schedule = {.name = seed % 2 == 0 ? "1f1b" : "zb"};
    const StepProgram alone = shared_program(one.model, one.micro_batches);
    EXPECT_TRUE(alone.machine_of.empty());
    EXPECT_EQ(alone.connections.size(), one.model.stages.size());
    StepProgram shared = alone;
    shared.orders.resize(one.model.stages.size());
    for (int stage = 0; stage < std::ssize(one.model.stages); ++stage) {
      shared.machine_of.push_back(stage);
      shared.orders[stage].assign(3 * static_cast<std::size_t>(one.micro_batches), stage);
    }
    StepTrace expected;
    StepTrace found;
    EXPECT_EQ(simulate_step(shared, {}, &found).seconds, simulate_step(alone, {}, &expected).seconds);
    ASSERT_EQ(found.work.size(), expected.work.size());
    for (std::size_t i = 0; i < found.work.size(); ++i) {
      EXPECT_EQ(found.work[i].node, expected.work[i].node) << seed;
      EXPECT_EQ(found.work[i].begin, expected.work[i].begin) << seed;
    }
  }
}

TEST(SharedMachines, ATurnThatNeverComesIsABug) {
  StepProgram program = shared_program(alike_pipeline({.name = "interleaved"}, 2), 2);
  std::ranges::reverse(program.orders[0]);
  EXPECT_THROW(simulate_step(program), BugError);
}

// ---- connections ----

TEST(SharedMachines, StagesShareTheirConnection) {
  PipelineModel model = alike_pipeline({.name = "interleaved"}, 2);
  for (StageWork& work : model.work) work.bytes_per_second = 10;
  for (std::vector<FlowWay>& links : model.links)
    for (FlowWay& way : links) way.bytes_per_second = 10;
  const StepProgram program = shared_program(model, 2);
  EXPECT_EQ(program.connections.size(), 4U);  // two of machines, two within them
  FlowNetwork network(program.connections, program.ways);
  // Between the machines of stages 0 and 2, and of 1 and 3.
  const auto way = [](int from, int to) { return static_cast<std::size_t>(2 * (from % 2) + to % 2); };
  network.send(0, way(0, 1), 0, 10);
  network.send(0, way(2, 3), 1, 10);
  network.send(0, way(0, 2), 2, 10);  // to itself
  network.send(0, way(3, 2), 3, 10);  // the other direction
  std::vector<int> left;
  for (const double at : {1, 1, 1, 2}) {
    EXPECT_NEAR(network.next(), at, 1e-9);
    left.push_back(network.take().message);
  }
  EXPECT_THAT(left, ElementsAre(0, 2, 3, 1));
}

// As slow as their connections, where it is what limits them.
TEST(SharedMachines, StagesShareTheLinkOfTheirMachines) {
  const auto seconds = [](const ScheduleSettings& schedule, double of_links, double of_machines) {
    PipelineModel model = alike_pipeline(schedule, 2);
    for (StageWork& work : model.work) work.bytes_per_second = of_machines;
    for (std::size_t from = 0; from < model.links.size(); ++from) {
      for (std::size_t to = 0; to < model.links.size(); ++to) {
        const StagePlacement placed = model.placement();
        const bool is_own =
            placed.machine_of(static_cast<int>(from)) == placed.machine_of(static_cast<int>(to));
        model.links[from][to].bytes_per_second = is_own ? kFreeWay : of_links;
      }
    }
    return shared_step(model, 8);
  };
  for (const ScheduleSettings& schedule : chunk_schedules())
    EXPECT_DOUBLE_EQ(seconds(schedule, 10, kFreeWay), seconds(schedule, 10, 10)) << schedule.name;
}

TEST(SharedMachines, WhatAMachinePassesToItselfTakesNoNetwork) {
  const PipelineModel model = alike_pipeline({.name = "zbv"}, 2);
  const StepProgram program = shared_program(model, 4);
  for (const ProgramMessage& message : program.messages) {
    const FlowWay& way = program.ways[message.way];
    const int from = model.placement().machine_of(message.from);
    const int to = model.placement().machine_of(message.to);
    EXPECT_EQ(way.from, from == to ? 2 + from : from);
    EXPECT_EQ(way.to, from == to ? 2 + to : to);
  }
}

// ---- what a step is made of ----

// Two machines of two segments each, 30 ms a segment, and 10 kB from one to the next.
StepParts parts_of_two_machines(double mbps, double latency_ms = 0) {
  const NodePool pool = pool_of(fast_pool(2, latency_ms, mbps)).divided({{4, 4}, {4, 4}});
  ModelCosts costs = chain(4);
  costs.micro_batches = 4;
  costs.schedule.name = "interleaved";
  for (Segment& segment : costs.segments) segment.work.update_flops = 1e9;
  const ThroughputModel model(pool, costs);
  const std::vector<int> members{0, 2, 1, 3};
  return step_parts(model, members, *model.cut(members, {0, 1, 2, 3}), costs.schedule);
}

TEST(SharedMachines, TheStepIsOfAllThatAMachineOrAWayHas) {
  const StepParts near = parts_of_two_machines(8);
  EXPECT_NEAR(near.busiest, 2 * 0.03, 1e-9);
  EXPECT_NEAR(near.update, 2 * 0.01, 1e-9);
  EXPECT_NEAR(near.round_trip, 4 * 0.03 + 3 * 2 * 0.01, 1e-9);
  EXPECT_NEAR(near.step, near.round_trip + 3 * near.period + near.update, 1e-9);
  // Activations of two boundaries go one way, and gradients of the third.
  const StepParts far = parts_of_two_machines(0.8);
  EXPECT_NEAR(far.busiest, 3 * 0.1, 1e-9);
  EXPECT_NEAR(far.period, far.busiest, 1e-9);
}

// 10 ms each of F, B and W of a stage: four micro-batches of a machine's, and F and B of one stage before.
TEST(SharedMachines, TheStepHasOfFillingThePipelineAStagesPart) {
  const StepParts parts = parts_of_two_machines(1e7);
  EXPECT_NEAR(parts.step - parts.update, 4 * 0.06 + 0.02, 1e-5);
}

// All four micro-batches may be in flight; but machine 1 does B of its first stage for the first of them,
// five ways from the beginning, before it does F there for the last, from which it is five to the end.
TEST(SharedMachines, ThePeriodIsLongWhereOrdersWaitForLongWays) {
  const StepParts far = parts_of_two_machines(1000, 1000);
  EXPECT_NEAR(far.round_trip, 6, 0.2);
  EXPECT_NEAR(far.step, 10, 0.3);
}

// ---- what a step waits for ----

TEST(SharedMachines, TheCriticalPathIsAChainFromTheEndToTheBeginning) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const SharedCase one = random_shared_case(seed, false);
    const StepProgram program = shared_program(one.model, one.micro_batches);
    StepTrace trace;
    const StepRun run = simulate_step(program, {}, &trace);
    const std::vector<PathPart> path = critical_path(program, trace);
    ASSERT_FALSE(path.empty());
    EXPECT_EQ(path.front().end, run.seconds) << seed;
    EXPECT_EQ(path.back().begin, 0) << seed;
    double sum = 0;
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (i > 0) {
        EXPECT_EQ(path[i].end, path[i - 1].begin) << seed;
      }
      EXPECT_LT(path[i].begin, path[i].end) << seed;
      sum += path[i].end - path[i].begin;
    }
    EXPECT_NEAR(sum, run.seconds, 1e-9 * run.seconds) << seed;
  }
}

// A stage that is slower by a trifle makes the step longer by as much as its share of the path says.
TEST(SharedMachines, TheCriticalPathTellsWhatAFasterStageWouldBring) {
  constexpr double kTrifle = 1e-7;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const SharedCase one = random_shared_case(seed, true);
    const StepProgram program = shared_program(one.model, one.micro_batches);
    StepTrace trace;
    const StepRun run = simulate_step(program, {}, &trace);
    std::map<int, double> work;
    for (const PathPart& part : critical_path(program, trace))
      if (!part.message) work[part.node] += part.end - part.begin;
    for (int node = 0; node < std::ssize(one.model.stages); ++node) {
      const Slowdown slower = [node](int of, int) { return of == node ? 1 + kTrifle : 1; };
      const double longer = (simulate_step(program, slower).seconds - run.seconds) / kTrifle;
      EXPECT_NEAR(longer, work[node], 1e-3 * run.seconds) << seed << ": " << node;
    }
  }
}

}  // namespace
}  // namespace rookery
