#include "clusterize/report/explanation.hpp"

#include <gmock/gmock.h>

#include "clusterize/pool/pool_changes.hpp"
#include "clusterize/search/search.hpp"
#include "clusterize/simulation/critical_path.hpp"
#include "clusterize/simulation/simulation.hpp"
#include "tests/clusterize/plan_support.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

TrainingSettings many_micro_batches() {
  TrainingSettings settings;
  settings.micro_batches = 8;
  settings.batch_size = 512;
  return settings;
}

// Fast links, so that work decides.
Json near_nodes(int count) {
  Json pool = equal_nodes(count);
  for (Json& node : pool) node["benchmarks"]["bandwidth"] = 100'000;
  pool["network"] = {{"default", {{"latency_ms", 0.001}, {"bandwidth_mbps", 100'000}}}};
  return pool;
}

struct PlannedPool {
  Json document;
  TrainingTask task = cnn_task(many_micro_batches());
  NodePool pool = pool_of(document);
  Planned planned = make_plan(task, pool, for_throughput());

  explicit PlannedPool(Json nodes) : document(std::move(nodes)) {}
  Bottleneck bottleneck() const { return find_bottleneck(task, pool, planned); }
  Explanation explain() const {
    return rookery::explain(document, {}, for_throughput(), planned, bottleneck());
  }
};

TEST(PoolChanges, OneMoreNodeIsLikeTheOther) {
  Json document = equal_nodes(3);
  document["network"]["links"] = {{{"between", {"0", "1"}}, {"latency_ms", 7}, {"bandwidth_mbps", 3}}};
  const NodePool pool = pool_of(with_copy_of(document, "1"));
  ASSERT_EQ(pool.nodes().size(), 4U);
  EXPECT_EQ(pool.node(3).ram_gb, pool.node(1).ram_gb);
  EXPECT_EQ(pool.link(0, 3), pool.link(0, 1));
  EXPECT_EQ(pool.link(2, 3), pool.link(2, 1));
}

TEST(PoolChanges, ChangeOneThing) {
  Json document = equal_nodes(3);
  document["network"]["links"] = {{{"between", {"1", "0"}}, {"latency_ms", 7}, {"bandwidth_mbps", 3}}};
  EXPECT_EQ(pool_of(with_faster_node(document, "1", 2, 20)).node(1).gflops, 40);
  EXPECT_EQ(pool_of(with_faster_connection(document, "1", 3)).node(1).bandwidth_mbps, 30);
  const NodePool linked = pool_of(with_link(document, "0", "1", {1, 50}));
  EXPECT_EQ(linked.link(0, 1), (LinkSpeed{1, 50}));
  EXPECT_EQ(linked.link(0, 2), pool_of(document).link(0, 2));
  EXPECT_EQ(pool_of(with_link(equal_nodes(2), "0", "1", {1, 50})).link(0, 1), (LinkSpeed{1, 50}));
}

TEST(Explanation, NamesTheNodeThatDoesAllTheWork) {
  const PlannedPool world(near_nodes(1));
  const Explanation found = world.explain();
  EXPECT_EQ(found.bottleneck.kind, Bottleneck::Kind::kNode);
  EXPECT_GT(found.bottleneck.share, 0.95);
  EXPECT_GE(found.reachable_samples_per_second, found.samples_per_second * (1 - 1e-9));
  EXPECT_LE(found.bottleneck.share, 1);
  EXPECT_THAT(found.bottleneck.text, HasSubstr("the work of node_0 (100 GFLOP/s, assumed)"));
  ASSERT_EQ(found.what_if.size(), 2U);
  EXPECT_THAT(found.what_if[0].change, HasSubstr("one more node like node_0"));
  EXPECT_GT(found.what_if[0].samples_per_second, 1.2 * found.samples_per_second);
  EXPECT_THAT(found.what_if[1].change, HasSubstr("node_0 twice as fast"));
  EXPECT_NEAR(found.what_if[1].samples_per_second, 2 * found.samples_per_second,
              0.01 * found.samples_per_second);
}

TEST(Explanation, NamesTheLinkThatIsTooSlow) {
  const TrainingTask task = cnn_task();
  const Json document = equal_nodes(3);
  const Planned planned = make_plan(task, pool_of(document), {});
  const Bottleneck bottleneck = find_bottleneck(task, pool_of(document), planned);
  const Explanation found = explain(document, {}, {}, planned, bottleneck);
  EXPECT_EQ(found.bottleneck.kind, Bottleneck::Kind::kLink);
  EXPECT_THAT(found.bottleneck.text, HasSubstr("(0.5 ms, 10 Mbit/s)"));
  ASSERT_EQ(found.what_if.size(), 3U);
  EXPECT_GT(found.what_if[1].samples_per_second, 1.1 * found.samples_per_second);  // twice the bandwidth
  EXPECT_GE(found.what_if[2].samples_per_second, found.samples_per_second);        // half the latency
  EXPECT_THAT(describe_explanation(found), HasSubstr("With twice the bandwidth between node_"));
}

// Each port by itself, though together they would do more.
TEST(Explanation, SaysWhatAPortForwardedToANodeThatIsLeftOutWouldBring) {
  Json document = near_nodes(3);
  for (const char* id : {"1", "2"}) {
    document[id]["reachable"] = false;
    document[id]["benchmarks"]["ram"] = 0.001;  // not for the whole model
  }
  document["0"]["benchmarks"]["gflops"] = 20;
  document["1"]["benchmarks"]["gflops"] = document["2"]["benchmarks"]["gflops"] = 100;
  const PlannedPool world(document);
  ASSERT_EQ(world.planned.plan.left_out.size(), 1U);
  EXPECT_EQ(world.planned.plan.left_out[0].node, "node_2");
  const Explanation found = world.explain();
  const WhatIf& last = found.what_if.back();
  EXPECT_EQ(last.change, "a port forwarded to node_2, so that others reach it");
  EXPECT_GT(last.samples_per_second, 1.05 * found.samples_per_second);
}

// Four machines around a slow network: the fast ones wait for it.
Json unequal_nodes() {
  Json pool = equal_nodes(4);
  const std::vector<std::pair<double, double>> speeds{{50, 60}, {50, 20}, {200, 60}, {50, 120}};
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    pool[std::to_string(i)]["benchmarks"]["bandwidth"] = speeds[i].first;
    pool[std::to_string(i)]["benchmarks"]["gflops"] = speeds[i].second;
  }
  pool["network"] = {{"default", {{"latency_ms", 5}, {"bandwidth_mbps", 1000}}}};
  return pool;
}

StepProgram step_of(const PlannedPool& world) {
  const PipelineModel model = pipeline_model(world.task, world.pool, world.planned, 0);
  return program_of_full_batches(world.task.settings, model, 1);
}

TEST(CriticalPath, IsAChainFromTheEndToTheBeginning) {
  for (const Json& document : {near_nodes(1), near_nodes(3), equal_nodes(3), unequal_nodes()}) {
    const PlannedPool world(document);
    const StepProgram program = step_of(world);
    StepTrace trace;
    const StepRun run = simulate_step(program, {}, &trace);
    const std::vector<PathPart> path = critical_path(program, trace);
    ASSERT_FALSE(path.empty());
    EXPECT_EQ(path.front().end, run.seconds);
    EXPECT_EQ(path.back().begin, 0);
    for (std::size_t i = 1; i < path.size(); ++i) EXPECT_EQ(path[i].end, path[i - 1].begin) << i;
  }
}

// A node that is slower by a trifle makes the step longer by as much as its share of the path says.
TEST(CriticalPath, TellsWhatAFasterNodeWouldBring) {
  constexpr double kTrifle = 1e-7;
  for (const Json& document : {near_nodes(3), equal_nodes(3), unequal_nodes()}) {
    const PlannedPool world(document);
    const StepProgram program = step_of(world);
    StepTrace trace;
    const StepRun run = simulate_step(program, {}, &trace);
    std::map<int, double> work;
    for (const PathPart& part : critical_path(program, trace)) {
      if (!part.message) work[part.node] += part.end - part.begin;
    }
    for (int node = 0; node < std::ssize(world.planned.members[0]); ++node) {
      const Slowdown slower = [node](int of, int) { return of == node ? 1 + kTrifle : 1; };
      const double longer = (simulate_step(program, slower).seconds - run.seconds) / kTrifle;
      EXPECT_NEAR(longer, work[node], 1e-3 * run.seconds) << node;
    }
  }
}

TEST(Bottleneck, IsThatOfTheSimulatedStep) {
  TrainingSettings settings;
  settings.micro_batches = 4;
  const TrainingTask task = cnn_task(settings);
  const NodePool pool = pool_of(unequal_nodes());
  const Planned planned =
      make_plan(task, pool, {.objective = Objective::kThroughput, .min_nodes = 4, .clusters = 1});
  const Bottleneck worst = find_bottleneck(task, pool, planned);
  EXPECT_EQ(worst.kind, Bottleneck::Kind::kLink);
  EXPECT_EQ(worst.stage, 0) << worst.text;
  EXPECT_EQ(worst.to_stage, 1);
  EXPECT_NEAR(1e3 * worst.seconds / worst.share, planned.plan.clusters[0].simulated_step_ms, 1e-6);
}

TEST(Bottleneck, SharesAreOfTheWholeStep) {
  for (const int nodes : {1, 2, 3, 6}) {
    for (const Json& document : {equal_nodes(nodes), near_nodes(nodes)}) {
      const PlannedPool world(document);
      const Bottleneck worst = world.bottleneck();
      EXPECT_GT(worst.share, 0) << nodes;
      EXPECT_LE(worst.share, 1 + 1e-9) << nodes;
      EXPECT_FALSE(worst.text.empty());
    }
  }
}

}  // namespace
}  // namespace rookery
