// Plans whose schedule gives each machine several stages.
#include "clusterize/planner/fit/chunks.hpp"

#include <gmock/gmock.h>

#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/planner/make_metadata.hpp"
#include "clusterize/planner/write_plan.hpp"
#include "clusterize/pool/address.hpp"
#include "clusterize/report/bottleneck.hpp"
#include "clusterize/report/explanation.hpp"
#include "clusterize/simulation/simulation.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/state/initialize.hpp"
#include "tests/clusterize/plan_support.hpp"
#include "tests/support/scratch_folder.hpp"
#include "trainer/schedule/machine_order.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

TrainingTask task_with(const std::string& schedule, int micro_batches = 8) {
  TrainingSettings settings;
  settings.schedule.name = schedule;
  settings.micro_batches = micro_batches;
  return cnn_task(settings);
}

SearchOptions one_cluster() {
  SearchOptions options = for_throughput();
  options.clusters = 1;
  options.min_nodes = 3;
  return options;
}

// Three slow machines with fast links, on which it is arithmetic that takes time.
Json slow_nodes(int count, double ram = 8) {
  Json pool = Json::object();
  for (int i = 0; i < count; ++i) {
    pool[std::to_string(i)] = node_json(8080 + i, ram, 1e5);
    pool[std::to_string(i)]["benchmarks"]["gflops"] = 0.5;
  }
  pool["network"] = {{"default", {{"latency_ms", 0.01}, {"bandwidth_mbps", 1e5}}}};
  return pool;
}

class PlanOfChunks : public testing::TestWithParam<std::string> {};

TEST_P(PlanOfChunks, GivesEachMachineTheStagesOfItsPlaces) {
  const TrainingTask task = task_with(GetParam());
  const Planned planned = plan(slow_nodes(3), task, one_cluster());
  ASSERT_EQ(planned.plan.clusters.size(), 1U);
  const std::vector<PlannedStage>& stages = planned.plan.clusters.front().stages;
  ASSERT_EQ(stages.size(), 6U);
  const StagePlacement placement = placement_of(task.settings.schedule, 6);
  std::set<std::string> addresses;
  std::vector<OpId> ops;
  for (int stage = 0; stage < 6; ++stage) {
    const PlannedStage& own = stages[static_cast<std::size_t>(stage)];
    const PlannedStage& first =
        stages[static_cast<std::size_t>(placement.stage_of(placement.machine_of(stage), 0))];
    const int chunk = placement.chunk_of(stage);
    EXPECT_EQ(own.node, chunk == 0 ? first.node : fmt::format("{}.{}", first.node, chunk));
    EXPECT_EQ(host_of(own.address), host_of(first.address));
    EXPECT_EQ(address_problem(own.address), "");
    EXPECT_GT(own.parameters, 0);
    EXPECT_EQ(own.threads_of_host, own.threads);
    addresses.insert(own.address);
    ops.insert(ops.end(), own.ops.begin(), own.ops.end());
  }
  EXPECT_EQ(addresses.size(), 6U);
  std::vector<OpId> all(task.graph.ops().size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(ops, all);
}

TEST_P(PlanOfChunks, IsWrittenAsWhatProvidersRead) {
  const ScratchFolder folder;
  const TrainingTask task = task_with(GetParam());
  const Planned planned = plan(slow_nodes(3), task, one_cluster());
  write_plan(folder.path(), task, planned, initial_state(task.graph, 42));
  const std::vector<NodeMetadata> nodes = read_all_metadata(folder.path());
  ASSERT_EQ(nodes.size(), 6U);
  EXPECT_EQ(nodes_of_machine(folder.path(), "node_0"), (std::vector<std::string>{"node_0", "node_0.1"}));
  for (const NodeMetadata& node : nodes) {
    const NodeMetadata made = make_metadata(task, planned, 0, node.stage);
    EXPECT_EQ(node.node, made.node);
    EXPECT_EQ(node.members, made.members);
    EXPECT_EQ(node.settings.schedule, made.settings.schedule);
  }
}

TEST_P(PlanOfChunks, KeepsWithinTheMemoryOfAMachine) {
  const TrainingTask task = task_with(GetParam());
  const Planned roomy = plan(slow_nodes(3), task, one_cluster());
  const auto by_machine = [](const Planned& planned) {
    std::map<std::string, std::int64_t> bytes;
    for (const PlannedStage& stage : planned.plan.clusters.front().stages)
      bytes[machine_of_node(stage.node)] += stage.prediction.total_bytes();
    return bytes;
  };
  std::int64_t most = 0;
  for (const auto& [machine, bytes] : by_machine(roomy)) most = std::max(most, bytes);
  const double ram = 1.02 * static_cast<double>(most) / 1e9;
  for (const auto& [machine, bytes] : by_machine(plan(slow_nodes(3, ram), task, one_cluster())))
    EXPECT_LE(static_cast<double>(bytes), 1e9 * ram) << machine;
  EXPECT_THAT(error_of([&] { plan(slow_nodes(3, ram / 50), task, one_cluster()); }), HasSubstr("memory"));
}

// A model of layers that are alike.
TrainingTask deep_task(const std::string& schedule, int micro_batches = 6, std::int64_t batch_size = 64) {
  constexpr std::int64_t kWidth = 64;
  GraphBuilder builder;
  ValueId x = builder.input("input", {kWidth});
  for (int layer = 0; layer < 18; ++layer) x = builder.linear(fmt::format("dense_{}", layer), x, kWidth);
  TrainingTask task{.graph = builder.finish(x), .settings = {}, .data = {1078, 719}};
  task.settings.schedule.name = schedule;
  task.settings.micro_batches = micro_batches;
  task.settings.batch_size = batch_size;
  add_loss(task.graph, "mse");
  task.kernels =
      choose_kernels(task.graph, micro_batch_sizes(task.settings, task.settings.batch_size).front());
  return task;
}

TEST_P(PlanOfChunks, FillsAPipelineSooner) {
  const auto step_ms = [](const std::string& schedule) {
    const Planned planned = plan(slow_nodes(3), deep_task(schedule), one_cluster());
    return planned.plan.clusters.front().simulated_step_ms;
  };
  EXPECT_LT(step_ms(GetParam()), 0.95 * step_ms("1f1b"));
}

TEST_P(PlanOfChunks, OfOneMachineHasOneStage) {
  const Planned planned = plan(slow_nodes(1), task_with(GetParam()), for_throughput());
  ASSERT_EQ(planned.plan.clusters.front().stages.size(), 1U);
  EXPECT_EQ(planned.plan.clusters.front().stages.front().node, "node_0");
}

TEST_P(PlanOfChunks, HasNoMachineThatCannotBeReached) {
  Json pool = slow_nodes(3);
  pool["1"]["reachable"] = false;
  EXPECT_THAT(error_of([&] { plan(pool, task_with(GetParam()), one_cluster()); }),
              testing::AllOf(HasSubstr("node_1"), HasSubstr("reachable"), HasSubstr("--exclude 1")));
}

TEST_P(PlanOfChunks, IsSimulatedAndExplained) {
  const TrainingTask task = task_with(GetParam());
  const Json pool = slow_nodes(4);
  const Planned planned = plan(pool, task, one_cluster());
  const Simulation simulated = simulate(task, planned.pool, planned, {.epochs = 1});
  EXPECT_EQ(simulated.nodes.size(), planned.plan.clusters.front().stages.size());
  EXPECT_GT(simulated.samples_per_second, 0);
  const Bottleneck bottleneck = find_bottleneck(task, planned.pool, planned);
  const Explanation why = explain(pool, {}, one_cluster(), planned, bottleneck);
  EXPECT_FALSE(why.what_if.empty());
  EXPECT_GE(why.reachable_samples_per_second, why.samples_per_second);
}

// Of alike machines, of which one becomes twice as fast.
TEST_P(PlanOfChunks, IsToldWhatAFasterMachineBrings) {
  const TrainingTask task = deep_task(GetParam());
  const Json pool = slow_nodes(4);
  const Planned planned = plan(pool, task, one_cluster());
  const Explanation why =
      explain(pool, {}, one_cluster(), planned, find_bottleneck(task, planned.pool, planned));
  ASSERT_EQ(why.bottleneck.kind, Bottleneck::Kind::kNode);
  const auto found = std::ranges::find_if(
      why.what_if, [](const WhatIf& one) { return one.change.ends_with("twice as fast"); });
  ASSERT_NE(found, why.what_if.end());
  EXPECT_GT(found->samples_per_second, 1.1 * why.samples_per_second);
}

TEST_P(PlanOfChunks, IsPredictedAsItIsSimulated) {
  for (const int machines : {2, 3, 4}) {
    for (const int micro_batches : {4, 8, 16}) {
      for (const bool clips : {false, true}) {
        TrainingTask task = deep_task(GetParam(), micro_batches);
        if (clips) task.settings.clip_gradient_norm = 1;
        Json pool = slow_nodes(machines);
        pool["0"]["benchmarks"]["gflops"] = 1.5;
        SearchOptions options = one_cluster();
        options.min_nodes = machines;
        const PlannedCluster cluster = plan(pool, task, options).plan.clusters.front();
        SCOPED_TRACE(testing::Message() << machines << " machines, " << micro_batches << " micro-batches");
        EXPECT_LE(cluster.predicted_step_ms, 1.1 * cluster.simulated_step_ms);
        EXPECT_GE(cluster.predicted_step_ms, 0.99 * cluster.simulated_step_ms);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Planner, PlanOfChunks, testing::Values("interleaved", "zbv"));

TEST(PlanOfManyChunks, HasAsManyStagesOnAMachineAsTheSettingsSay) {
  TrainingTask task = task_with("interleaved");
  task.settings.schedule.chunks = 3;
  const Planned planned = plan(slow_nodes(3), task, one_cluster());
  EXPECT_EQ(planned.plan.clusters.front().stages.size(), 9U);
}

}  // namespace
}  // namespace rookery
