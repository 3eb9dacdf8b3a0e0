#include "clusterize/planner/data_connections.hpp"

#include <gtest/gtest.h>

#include "clusterize/planner/make_metadata.hpp"
#include "tests/clusterize/plan_support.hpp"

namespace rookery {
namespace {

TEST(DataConnections, AreAsManyAsBandwidthTimesRoundTripNeeds) {
  EXPECT_EQ(data_connections({.latency_ms = 0.1, .bandwidth_mbps = 10'000}), 1);  // one machine
  EXPECT_EQ(data_connections({.latency_ms = 25, .bandwidth_mbps = 100}), 1);      // 0.6 MB
  EXPECT_EQ(data_connections({.latency_ms = 40, .bandwidth_mbps = 860}), 5);      // 8.6 MB
  EXPECT_EQ(data_connections({.latency_ms = 100, .bandwidth_mbps = 1000}), 12);   // 25 MB
  EXPECT_EQ(data_connections({.latency_ms = 60'000, .bandwidth_mbps = 1e6}), 16);
  EXPECT_EQ(data_connections({.latency_ms = 0, .bandwidth_mbps = 1000}), 1);
}

// Two nodes near each other, and one far away.
Json one_far_away() {
  Json pool = equal_nodes(3);
  for (Json& node : pool) node["benchmarks"]["bandwidth"] = 1000;
  pool["network"] = {{"default", {{"latency_ms", 1}, {"bandwidth_mbps", 1000}}},
                     {"links",
                      {{{"between", {"0", "2"}}, {"latency_ms", 100}, {"bandwidth_mbps", 1000}},
                       {{"between", {"1", "2"}}, {"latency_ms", 100}, {"bandwidth_mbps", 1000}}}}};
  return pool;
}

TEST(DataConnections, ArePlannedForNodesOfAClusterAndToldToBoth) {
  const TrainingTask task = cnn_task();
  const Planned planned = plan(one_far_away(), task, {.min_nodes = 3, .clusters = 1});
  ASSERT_EQ(planned.plan.clusters.front().stages.size(), 3U);
  const std::map<std::pair<std::string, std::string>, int> expected{{{"node_0", "node_2"}, 12},
                                                                    {{"node_1", "node_2"}, 12}};
  EXPECT_EQ(planned.plan.connections, expected);
  for (int stage = 0; stage < 3; ++stage) {
    const NodeMetadata metadata = make_metadata(task, planned, 0, stage);
    for (const PeerInfo& peer : metadata.members) {
      const bool is_far = peer.node != metadata.node && (peer.node == "node_2" || metadata.node == "node_2");
      EXPECT_EQ(peer.connections, is_far ? 12 : 1) << metadata.node << " " << peer.node;
    }
  }
}

TEST(DataConnections, ArePlannedForNeighboursInRings) {
  const TrainingTask task = cnn_task();
  const Planned planned = plan(one_far_away(), task, {.min_nodes = 1, .clusters = 3});
  ASSERT_EQ(planned.plan.clusters.size(), 3U);
  EXPECT_EQ(planned.plan.connections.size(), 2U);
}

TEST(DataConnections, AreOneWhereThereIsNoMemoryForWhatOvertakes) {
  const TrainingTask task = cnn_task();
  const SearchOptions three{.min_nodes = 3, .clusters = 1};
  const PlannedStage last = plan(one_far_away(), task, three).plan.clusters.front().stages.back();
  ASSERT_EQ(last.node, "node_2");
  Json pool = one_far_away();
  pool["2"]["benchmarks"]["ram"] = static_cast<double>(last.prediction.total_bytes() - 1) * 1e-9;
  const Planned planned = plan(pool, task, three);
  EXPECT_TRUE(planned.plan.connections.empty());
  EXPECT_LT(planned.plan.clusters.front().stages.back().prediction.transport_bytes,
            last.prediction.transport_bytes);
}

// Nodes that know of different numbers would refuse each other.
TEST(DataConnections, AreOfThePlansId) {
  const TrainingTask task = cnn_task();
  Json near = one_far_away();
  for (Json& link : near["network"]["links"]) link["latency_ms"] = 8;
  const SearchOptions three{.min_nodes = 3, .clusters = 1};
  const Planned far = plan(one_far_away(), task, three);
  const Planned nearer = plan(near, task, three);
  EXPECT_TRUE(nearer.plan.connections.empty());
  EXPECT_NE(far.plan.plan_id, nearer.plan.plan_id);
}

}  // namespace
}  // namespace rookery
