#include "clusterize/simulation/simulation.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/report/simulation_report.hpp"
#include "models/base/text.hpp"
#include "tests/clusterize/plan_support.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

struct World {
  TrainingTask task;
  NodePool pool;
  Planned planned;

  World(const TrainingSettings& settings, const Json& nodes, const SearchOptions& options = {})
      : task(cnn_task(settings)), pool(pool_of(nodes)), planned(make_plan(task, pool, options)) {}
  Simulation simulate(const SimulationOptions& options = {}) const {
    return rookery::simulate(task, planned.pool, planned, options);
  }
};

TrainingSettings settings_with(int micro_batches, int epochs = 3) {
  TrainingSettings settings;
  settings.micro_batches = micro_batches;
  settings.epochs = epochs;
  return settings;
}

TEST(Simulation, OfOneNodeIsWhatTheCostModelPredicts) {
  for (const int micro_batches : {1, 4}) {
    const World world(settings_with(micro_batches), equal_nodes(1));
    const Simulation found = world.simulate();
    EXPECT_NEAR(found.step_seconds, found.predicted_step_seconds, 1e-12);
    EXPECT_NEAR(found.bubble_share, 0, 1e-9);
    EXPECT_EQ(found.steps, 3 * 17);  // 1078 samples: 16 batches of 64, one of 54
    EXPECT_EQ(found.samples, 3 * 1078);
    EXPECT_GT(found.validation_seconds, 0);
    EXPECT_NEAR(found.samples_per_second, world.planned.plan.predicted_samples_per_second,
                0.05 * found.samples_per_second);
  }
}

// Where nothing overlaps, the two differ by little: gradients leave before a stage is done with those of its
// weights, and labels go from the first stage to the last by themselves.
TEST(Simulation, OfAPipelineIsCloseToTheCostModel) {
  const World one(settings_with(1), equal_nodes(3));
  const Simulation serial = one.simulate();
  EXPECT_LT(serial.step_seconds, serial.predicted_step_seconds);
  EXPECT_GT(serial.step_seconds, 0.95 * serial.predicted_step_seconds);
  Json fast = equal_nodes(3);
  for (Json& node : fast) node["benchmarks"]["bandwidth"] = 100'000;
  fast["network"] = {{"default", {{"latency_ms", 0.001}, {"bandwidth_mbps", 100'000}}}};
  const World many(settings_with(32), fast, {.objective = Objective::kThroughput, .min_nodes = 3});
  const Simulation pipelined = many.simulate();
  EXPECT_NEAR(pipelined.step_seconds / pipelined.predicted_step_seconds, 1, 0.07);
}

TEST(Simulation, EpochsAreAlikeWithoutRandomness) {
  const World world(settings_with(4), equal_nodes(3));
  const Simulation one = world.simulate({.epochs = 1});
  const Simulation many = world.simulate({.epochs = 1000});
  EXPECT_NEAR(many.seconds, 1000 * one.seconds, 1e-6 * many.seconds);
  EXPECT_EQ(many.simulated_actions, one.simulated_actions);
  EXPECT_EQ(many.steps, 17'000);
}

TEST(Simulation, SharesOfNodesAndLinksAreThoseOfTheStep) {
  const World world(settings_with(4), equal_nodes(3));
  const Simulation found = world.simulate();
  ASSERT_EQ(found.nodes.size(), 3U);
  double computing = 0;
  for (const NodeUse& node : found.nodes) {
    for (const double share : {node.computing, node.sending, node.receiving}) {
      EXPECT_GE(share, 0);
      EXPECT_LE(share, 1);
    }
    computing += node.computing;
  }
  EXPECT_NEAR(1 - computing / 3, found.bubble_share, 1e-12);
  ASSERT_FALSE(found.links.empty());
  EXPECT_TRUE(std::ranges::is_sorted(found.links, std::greater<>(), &LinkUse::used));
  const std::int64_t per_step = 4 * world.planned.plan.clusters[0].links[0].activation_bytes;
  const auto link = std::ranges::find_if(
      found.links, [](const LinkUse& use) { return use.from == "node_0" && use.to == "node_1"; });
  ASSERT_NE(link, found.links.end());
  EXPECT_EQ(link->bytes, static_cast<double>(per_step));
  EXPECT_NEAR(link->used, link->bytes / 1.25e6 / found.step_seconds, 1e-12);
}

// Their stages are nodes, which share the machine and its connection.
TEST(Simulation, OfMachinesWithSeveralStagesCountsEachMachineOnce) {
  for (const char* schedule : {"interleaved", "zbv"}) {
    TrainingSettings settings = settings_with(6);
    settings.schedule.name = schedule;
    const World world(settings, equal_nodes(3));
    ASSERT_EQ(world.planned.members.at(0).size(), 6U);
    const Simulation found = world.simulate();
    ASSERT_EQ(found.nodes.size(), 6U);
    std::map<std::string, double> computing;
    std::map<std::string, double> sending;
    double all = 0;
    for (const NodeUse& node : found.nodes) {
      computing[machine_of_node(node.node)] += node.computing;
      sending[machine_of_node(node.node)] += node.sending;
      all += node.computing;
    }
    EXPECT_EQ(computing.size(), 3U);
    EXPECT_NEAR(found.bubble_share, 1 - all / 3, 1e-12);
    for (const auto& [machine, share] : computing) EXPECT_LE(share, 1 + 1e-9) << machine;
    for (const auto& [machine, share] : sending) EXPECT_LE(share, 1 + 1e-9) << machine;
    for (const LinkUse& link : found.links) {
      EXPECT_EQ(link.from, machine_of_node(link.from));
      EXPECT_NE(link.from, link.to);
      EXPECT_LE(link.used, 1 + 1e-9);
    }
    EXPECT_GE(std::ssize(found.links), 4);
  }
}

TEST(Simulation, OfMachinesWithSeveralStagesIsNoLongerThanPredictedWhereConnectionsAreFast) {
  for (const char* schedule : {"interleaved", "zbv"}) {
    for (const double latency_ms : {0.01, 1.0, 20.0}) {
      TrainingSettings settings = settings_with(16);
      settings.schedule.name = schedule;
      Json pool = equal_nodes(3);
      for (Json& node : pool) node["benchmarks"] = {{"ram", 8}, {"bandwidth", 10'000}, {"gflops", 0.5}};
      pool["network"] = {{"default", {{"latency_ms", latency_ms}, {"bandwidth_mbps", 10'000}}}};
      const World world(settings, pool, {.min_nodes = 3, .clusters = 1});
      const PlannedCluster& cluster = world.planned.plan.clusters.at(0);
      ASSERT_EQ(cluster.stages.size(), 6U);
      EXPECT_LE(cluster.simulated_step_ms, cluster.predicted_step_ms) << schedule << " " << latency_ms;
      EXPECT_GE(cluster.simulated_step_ms, 0.8 * cluster.predicted_step_ms) << schedule << " " << latency_ms;
    }
  }
}

// Rings of all stages of a machine share its connection.
TEST(Simulation, MachinesWithSeveralStagesAverageByOneConnection) {
  TrainingSettings settings = settings_with(4);
  settings.schedule.name = "interleaved";
  const World world(settings, equal_nodes(6));  // two clusters of three
  ASSERT_EQ(world.planned.members.size(), 2U);
  const StepProgram round = averaging_program(world.task, world.planned.pool, world.planned, 1);
  EXPECT_EQ(round.connections.size(), 6U);
  EXPECT_GT(world.simulate().averaging_seconds, 0);
}

TEST(Simulation, ClustersShareTheSamplesAndAverage) {
  const World world(settings_with(1), equal_nodes(6));  // two clusters of three
  ASSERT_EQ(world.planned.members.size(), 2U);
  const Simulation found = world.simulate();
  EXPECT_EQ(found.steps, 3 * 9);  // 539 samples each
  EXPECT_GT(found.averaging_seconds, 0);
  EXPECT_FALSE(found.averaging_is_estimated);
  EXPECT_NEAR(found.averaging_seconds / world.planned.plan.predicted_averaging_ms * 1e3, 1, 0.25);
  const auto averages = [](const LinkUse& use) { return use.from_cluster != use.to_cluster; };
  EXPECT_TRUE(std::ranges::any_of(found.links, averages));
}

TEST(Simulation, ASlowClusterHasASmallShareOfEveryStep) {
  Json pool = equal_nodes(2);
  for (Json& node : pool) node["benchmarks"]["bandwidth"] = 10'000;
  pool["0"]["benchmarks"]["gflops"] = 1;
  pool["1"]["benchmarks"]["gflops"] = 4;
  const World world(settings_with(1), pool, {.min_nodes = 1, .clusters = 2});
  const std::int64_t joint = shares_of(world.planned.plan, 0).joint();
  EXPECT_LT(joint, 90);
  const Simulation found = world.simulate();
  EXPECT_EQ(found.steps, 3 * ((1078 + joint - 1) / joint));
  EXPECT_EQ(found.samples, 3 * 1078);
  // The plan takes a step to be in proportion to its share; its update is not.
  EXPECT_NEAR(found.samples_per_second / world.planned.plan.simulated_samples_per_second, 1, 0.2);
  EXPECT_NEAR(found.predicted_step_seconds / found.step_seconds, 1, 0.2);
  for (const NodeUse& node : found.nodes) EXPECT_GT(node.computing, 0.7);
}

TEST(Simulation, RoundsThatOverlapTakeFewBytesAndLittleTime) {
  const auto simulated = [](const AveragingSettings& averaging) {
    TrainingSettings settings = settings_with(1);
    settings.batch_size = 16;  // 34 steps of an epoch
    settings.validate_every = 0;
    settings.averaging = averaging;
    const World world(settings, equal_nodes(6));
    Simulation found = world.simulate();
    EXPECT_EQ(world.planned.members.size(), 2U);
    EXPECT_NEAR(found.averaging_seconds / world.planned.plan.predicted_averaging_ms * 1e3, 1, 0.25);
    return found;
  };
  const auto bytes = [](const Simulation& found) {
    double sum = 0;
    for (const LinkUse& link : found.links) sum += link.from_cluster != link.to_cluster ? link.bytes : 0;
    return sum;
  };
  const Simulation waited = simulated({.mode = "diloco", .every = 10});
  const Simulation beside = simulated({.mode = "diloco", .every = 10, .overlap = 9});
  const Simulation parts = simulated({.mode = "diloco", .every = 10, .fragments = 5});
  const Simulation few = simulated({.mode = "diloco", .every = 10, .compression = "int8"});
  // At the end of three epochs a round is waited for: 1 of 102 steps instead of 1 of 10.
  EXPECT_NEAR(beside.averaging_seconds / waited.averaging_seconds, 10.0 / 102, 1e-3);
  EXPECT_LT(parts.averaging_seconds, waited.averaging_seconds);
  EXPECT_LT(parts.round_seconds, 0.5 * waited.round_seconds);
  EXPECT_LT(few.averaging_seconds, 0.5 * waited.averaging_seconds);
  EXPECT_LT(bytes(few), 0.35 * bytes(waited));
  EXPECT_GT(bytes(few), 0.2 * bytes(waited));
}

TEST(Simulation, StragglersCostTimeTheSameForTheSameSeed) {
  const World world(settings_with(4), equal_nodes(3));
  const Simulation calm = world.simulate();
  const SimulationOptions options{.seed = 7, .straggler_share = 0.2, .straggler_factor = 50};
  const Simulation slow = world.simulate(options);
  EXPECT_GT(slow.seconds, calm.seconds);
  EXPECT_EQ(slow.step_seconds, calm.step_seconds);
  EXPECT_EQ(to_json(slow, options), to_json(world.simulate(options), options));
  EXPECT_NE(world.simulate({.seed = 8, .straggler_share = 0.2, .straggler_factor = 50}).seconds,
            slow.seconds);
}

TEST(Simulation, StragglersOfEveryStepAreSlowerMachines) {
  for (const char* schedule : {"1f1b", "async", "zbv"}) {
    TrainingSettings settings = settings_with(4);
    settings.schedule.name = schedule;
    const World world(settings, equal_nodes(3));
    const Simulation calm = world.simulate();
    const Simulation all = world.simulate({.straggler_share = 1, .straggler_factor = 20});
    const Simulation none = world.simulate({.straggler_share = 1, .straggler_factor = 1});
    EXPECT_NEAR(none.seconds, calm.seconds, 1e-9 * calm.seconds) << schedule;
    EXPECT_LT(calm.seconds, all.seconds) << schedule;
    EXPECT_LT(all.seconds, 20 * calm.seconds) << schedule;
  }
}

// A failure costs the work since the last checkpoint, ten seconds to notice it, and one to start again.
TEST(Simulation, AFailureMeansToGoOnFromTheLastCheckpoint) {
  TrainingSettings settings = settings_with(4);
  for (const auto& [every, spans] :
       {std::pair("never", 1.0), std::pair("1 epoch", 3.0), std::pair("2 epoch", 1.5)}) {
    settings.checkpoint_every = every;
    const World world(settings, equal_nodes(3));
    const double run = world.simulate().seconds;
    // One failure per run and node, on average, so that the spans between checkpoints have 3 / spans.
    const double per_hour = 3600 / run;
    const auto expected = [&](double failures) { return std::expm1(failures) * (run / 3 + 10 + 1); };
    const double whole = std::floor(spans);
    const double mean = whole * expected(3 / spans) + expected(3 - whole * 3 / spans);
    double sum = 0;
    constexpr int kRuns = 2000;
    for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
      const Simulation found =
          world.simulate({.seed = seed, .failures_per_hour = per_hour, .restart_seconds = 1});
      ASSERT_TRUE(found.failures && found.failures->seconds);
      const auto failures = static_cast<double>(found.failures->failures);
      EXPECT_EQ(found.seconds, run);
      EXPECT_NEAR(*found.failures->seconds, run + found.failures->lost_seconds, 1e-9);
      EXPECT_GE(found.failures->lost_seconds, failures * (10 + 1));
      EXPECT_LE(found.failures->lost_seconds, failures * (run / spans + 10 + 1) * (1 + 1e-9));
      EXPECT_NEAR(found.failures->expected_seconds, mean, 1e-6);
      sum += *found.failures->seconds / mean;
    }
    EXPECT_NEAR(sum / kRuns, 1, 0.1) << every;
    EXPECT_FALSE(world.simulate().failures);
  }
}

TEST(Simulation, TellsFromWhereARunGoesOn) {
  TrainingSettings settings = settings_with(4);
  const SimulationOptions options{.failures_per_hour = 10};
  for (const auto& [every, told] :
       {std::pair("5 steps", "from the last checkpoint (checkpoint_every: 5 steps)"),
        std::pair("never", "from the first step, since no checkpoints are made")}) {
    settings.checkpoint_every = every;
    const World world(settings, equal_nodes(3));
    EXPECT_THAT(describe_simulation(world.simulate(options), options, settings), HasSubstr(told));
  }
}

TEST(Simulation, OfManyNodesTellsHowManyStagesThereAre) {
  Simulation found{.predicted_step_seconds = 1};
  for (int node = 0; node < 70; ++node) found.nodes.push_back({.node = fmt::format("node_{}", node)});
  EXPECT_THAT(describe_simulation(found, {}, {}), HasSubstr("The 64 busiest of 70 nodes ("));
  found.nodes.back().node = "node_0.1";
  EXPECT_THAT(describe_simulation(found, {}, {}), HasSubstr("The 64 busiest of 70 stages ("));
}

TEST(Simulation, ARunThatCannotEndIsGivenUp) {
  const World world(settings_with(1, 1'000'000), equal_nodes(3));
  const Simulation found = world.simulate({.failures_per_hour = 3600});
  ASSERT_TRUE(found.failures);
  EXPECT_FALSE(found.failures->seconds);
  EXPECT_EQ(found.failures->failures, kMostFailures);
  const SimulationOptions options{.failures_per_hour = 3600};
  EXPECT_THAT(describe_simulation(found, options, world.task.settings), HasSubstr("for ever on average"));
  EXPECT_TRUE(to_json(found, options)["failures"]["seconds"].is_null());
}

}  // namespace
}  // namespace rookery
