#include "clusterize/simulation/in_flight.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "clusterize/simulation/simulation.hpp"
#include "tests/clusterize/plan_support.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;

// Stages of one second of work each, and two seconds from one to the next and back.
StepParts parts_of(std::size_t stages, double between) {
  StepParts parts{.busiest = 1};
  parts.work.assign(stages, 1);
  parts.updates.assign(stages, 0);
  parts.transfers.assign(stages, between);
  parts.transfers.back() = 0;
  return parts;
}

TEST(NeededInFlight, IsARoundTripOfTheBusiestStage) {
  EXPECT_THAT(needed_in_flight(parts_of(4, 0), {}, 20), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(needed_in_flight(parts_of(4, 1), {}, 20), ElementsAre(7, 5, 3, 1));
  EXPECT_THAT(needed_in_flight(parts_of(4, 1.5), {}, 20), ElementsAre(10, 7, 4, 1));
  EXPECT_THAT(needed_in_flight(parts_of(4, 1), {}, 6), ElementsAre(6, 5, 3, 1));
  StepParts parts = parts_of(4, 0);
  parts.transfers[2] = 10;  // what is behind the slow way is not concerned
  EXPECT_THAT(needed_in_flight(parts, {}, 20), ElementsAre(14, 13, 12, 1));
  parts.transfers[2] = 0;
  parts.transfers[0] = 10;
  EXPECT_THAT(needed_in_flight(parts, {}, 20), ElementsAre(14, 3, 2, 1));
  parts.busiest = 100;  // no fewer than usual
  EXPECT_THAT(needed_in_flight(parts, {}, 20), ElementsAre(4, 3, 2, 1));
}

TEST(NeededInFlight, KeepsToWhatSettingsSay) {
  EXPECT_THAT(needed_in_flight(parts_of(3, 4), {.in_flight = 3}, 20), ElementsAre(3, 2, 1));
  EXPECT_THAT(needed_in_flight(parts_of(3, 4), {.name = "async"}, 1), ElementsAre(3, 2, 1));
  EXPECT_THAT(needed_in_flight(parts_of(3, 1), {.name = "async", .max_staleness = 8}, 1),
              ElementsAre(5, 3, 1));
  // Both ways wait alike.
  EXPECT_THAT(needed_in_flight(parts_of(3, 9), {.name = "async", .max_staleness = 8}, 1),
              ElementsAre(9, 5, 1));
}

// Machines in a row that are far from each other.
Json far_apart(int nodes, double ram = 8, double latency_ms = 20) {
  Json pool = equal_nodes(nodes, ram);
  for (Json& node : pool) {
    node["benchmarks"]["bandwidth"] = 1000;
    node["benchmarks"]["gflops"] = 0.5;
  }
  pool["network"] = {{"default", {{"latency_ms", latency_ms}, {"bandwidth_mbps", 1000}}}};
  return pool;
}

TrainingSettings far_settings(int micro_batches, const ScheduleSettings& schedule = {}) {
  TrainingSettings settings;
  settings.batch_size = 16 * micro_batches;
  settings.micro_batches = micro_batches;
  settings.schedule = schedule;
  return settings;
}

Planned planned_with(const TrainingSettings& settings, const Json& pool) {
  return make_plan(cnn_task(settings), pool_of(pool), {.min_nodes = 3, .clusters = 1});
}

std::vector<int> in_flight_of(const Planned& planned) {
  std::vector<int> all;
  for (const PlannedStage& stage : planned.plan.clusters[0].stages) all.push_back(stage.in_flight);
  return all;
}

TEST(InFlight, OverALongWayIsMoreAndTheStepShorter) {
  const Planned chosen = planned_with(far_settings(32), far_apart(3));
  const Planned usual = planned_with(far_settings(32, {.in_flight = 3}), far_apart(3));
  EXPECT_THAT(in_flight_of(usual), ElementsAre(3, 2, 1));
  EXPECT_GT(in_flight_of(chosen)[0], 6);
  EXPECT_EQ(in_flight_of(chosen)[2], 1);
  const PlannedCluster& fast = chosen.plan.clusters[0];
  const PlannedCluster& slow = usual.plan.clusters[0];
  EXPECT_LT(fast.simulated_step_ms, 0.5 * slow.simulated_step_ms);
  EXPECT_LT(fast.predicted_step_ms, 0.5 * slow.predicted_step_ms);
  EXPECT_GT(fast.stages[0].prediction.memory.stash, slow.stages[0].prediction.memory.stash);
  EXPECT_GT(fast.stages[0].prediction.transport_bytes, slow.stages[0].prediction.transport_bytes);
  EXPECT_NE(chosen.plan.plan_id, usual.plan.plan_id);
  // The busiest stage never waits: a step is a round trip, and so often its work.
  EXPECT_NEAR(fast.simulated_step_ms / fast.predicted_step_ms, 1, 0.05);
}

TEST(InFlight, OverAShortWayIsAsManyAsStages) {
  EXPECT_THAT(in_flight_of(planned_with(far_settings(32), far_apart(3, 8, 0.001))), ElementsAre(3, 2, 1));
}

TEST(InFlight, OfMachinesWithSeveralStagesIsMoreOverALongWay) {
  for (const char* name : {"interleaved", "zbv"}) {
    const Planned near = planned_with(far_settings(32, {.name = name}), far_apart(3, 8, 0.001));
    const Planned far = planned_with(far_settings(32, {.name = name}), far_apart(3));
    const Planned usual = planned_with(far_settings(32, {.name = name, .in_flight = 1}), far_apart(3));
    EXPECT_EQ(in_flight_of(near), in_flight_of(usual)) << name;
    EXPECT_GT(in_flight_of(far)[0], in_flight_of(usual)[0]) << name;
    EXPECT_LT(far.plan.clusters[0].simulated_step_ms, 0.6 * usual.plan.clusters[0].simulated_step_ms) << name;
    EXPECT_NE(far.plan.plan_id, usual.plan.plan_id) << name;
  }
}

TEST(InFlight, IsWithinMemory) {
  const Planned roomy = planned_with(far_settings(32), far_apart(3));
  const Planned four = planned_with(far_settings(32, {.in_flight = 4}), far_apart(3));
  std::int64_t most = 0;
  for (const PlannedStage& stage : four.plan.clusters[0].stages)
    most = std::max(most, stage.prediction.total_bytes());
  const double ram = static_cast<double>(most) / 1e9;
  const Planned tight = planned_with(far_settings(32), far_apart(3, ram));
  EXPECT_LT(in_flight_of(tight)[0], in_flight_of(roomy)[0]);
  for (const PlannedStage& stage : tight.plan.clusters[0].stages)
    EXPECT_LE(static_cast<double>(stage.prediction.total_bytes()), 1e9 * ram);
  EXPECT_GT(tight.plan.clusters[0].predicted_step_ms, roomy.plan.clusters[0].predicted_step_ms);
}

TEST(InFlight, OfAsyncIsWithinStaleness) {
  const Json pool = far_apart(3, 8, 200);
  const Planned usual = planned_with(far_settings(1, {.name = "async"}), pool);
  EXPECT_THAT(in_flight_of(usual), ElementsAre(3, 2, 1));
  const Planned stale = planned_with(far_settings(1, {.name = "async", .max_staleness = 6}), pool);
  EXPECT_THAT(in_flight_of(stale), ElementsAre(7, 4, 1));
  EXPECT_LT(stale.plan.clusters[0].simulated_step_ms, 0.6 * usual.plan.clusters[0].simulated_step_ms);
}

// Whatever the machines: stages that follow have no more, nothing is slower for it, and everything fits.
void check_plan(int nodes, double ram, double latency_ms, double mbps, int micro_batches) {
  SCOPED_TRACE(fmt::format("{} nodes, {} GB, {} ms, {} Mbit/s, {} micro-batches", nodes, ram, latency_ms,
                           mbps, micro_batches));
  Json document = far_apart(nodes, ram, latency_ms);
  document["network"]["default"]["bandwidth_mbps"] = mbps;
  for (int i = 0; i < nodes; ++i) document[std::to_string(i)]["benchmarks"]["gflops"] = 0.2 * (1 + 7 * i % 5);
  const TrainingSettings settings = far_settings(micro_batches);
  const TrainingTask task = cnn_task(settings);
  const NodePool pool = pool_of(document);
  Planned planned = make_plan(task, pool, {.min_nodes = nodes, .clusters = 1});
  PlannedCluster& cluster = planned.plan.clusters[0];
  EXPECT_TRUE(std::ranges::is_sorted(in_flight_of(planned), std::greater<>()));
  for (PlannedStage& stage : cluster.stages) {
    EXPECT_LE(static_cast<double>(stage.prediction.total_bytes()), 1e9 * ram);
    const auto index = static_cast<int>(&stage - cluster.stages.data());
    stage.in_flight = in_flight({}, index, nodes, micro_batches);
  }
  const double usual = simulated_step_seconds(task, pool, planned, 0, settings.batch_size);
  EXPECT_LE(cluster.simulated_step_ms, 1e3 * usual * (1 + 1e-9));
}

TEST(InFlight, MakesNoStepLonger) {
  for (const double ram : {8.0, 4e-3}) {
    for (const double latency_ms : {0.1, 40.0}) {
      for (const double mbps : {5.0, 100.0}) {
        for (const int micro_batches : {2, 24}) check_plan(3, ram, latency_ms, mbps, micro_batches);
      }
    }
  }
}

}  // namespace
}  // namespace rookery
