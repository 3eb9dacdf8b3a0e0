#include "clusterize/planner/long_links.hpp"

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
  TrainingTask task = cnn_task();
  task.settings.averaging.mode = "parameters";  // so that a stage takes the same in plans of several clusters
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

TEST(LongLinks, RingsHaveUnderWayWhatFillsTheirLinks) {
  const LinkSpeed near{.latency_ms = 1, .bandwidth_mbps = 1000};
  const LinkSpeed far{.latency_ms = 100, .bandwidth_mbps = 1000};
  const LinkSpeed slow{.latency_ms = 1, .bandwidth_mbps = 100};
  const auto under_way = [](std::vector<LinkSpeed> links) { return ring_under_way(links); };
  EXPECT_EQ(under_way({near, near}), std::nullopt);
  EXPECT_EQ(under_way({near, far, near}), 32U << 20) << "no more than the connections carry";
  EXPECT_EQ(under_way({far, slow}), std::nullopt) << "it waits for the slow one";
  EXPECT_EQ(under_way({near, {.latency_ms = 40, .bandwidth_mbps = 1000}}), 15'000'000U);  // 10 MB, and half
}

// The rings of a model that is large enough have them, their memory is counted, and all members know.
TEST(LongLinks, RingsOverALongWayHaveMoreUnderWayWhereThereIsMemory) {
  TrainingSettings settings;
  settings.model = "deep_mlp";
  const TrainingTask task = cnn_task(settings);
  Json near = one_far_away();
  for (Json& link : near["network"]["links"]) link["latency_ms"] = 1;
  const SearchOptions alone{.min_nodes = 1, .clusters = 3};
  const auto bytes = [](const Planned& planned) {
    return planned.plan.clusters.front().stages.front().prediction.averaging_bytes;
  };
  const Planned planned = plan(one_far_away(), task, alone);
  ASSERT_EQ(planned.plan.rings.size(), 1U);
  EXPECT_EQ(planned.plan.rings.front().under_way, 32U << 20);
  const std::int64_t more = bytes(planned) - bytes(plan(near, task, alone));
  EXPECT_GT(more, 1 << 20);
  for (int cluster = 0; cluster < 3; ++cluster)
    EXPECT_EQ(make_metadata(task, planned, cluster, 0).rings.at(0).under_way, 32U << 20);

  Json pool = one_far_away();
  const std::int64_t total = planned.plan.clusters.front().stages.front().prediction.total_bytes();
  pool["0"]["benchmarks"]["ram"] = static_cast<double>(total - 1) * 1e-9;
  const Planned without = plan(pool, task, alone);
  EXPECT_EQ(without.plan.rings.front().under_way, std::nullopt);
  EXPECT_EQ(bytes(without), bytes(planned) - more);
  EXPECT_NE(without.plan.plan_id, planned.plan.plan_id);
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
