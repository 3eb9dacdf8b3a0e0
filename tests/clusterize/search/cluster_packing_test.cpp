#include "clusterize/search/cluster_packing.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/clusterize/chain_model.hpp"
#include "tests/clusterize/search/brute_force.hpp"

namespace rookery {
namespace {

const TimeLimit kNoLimit{std::nullopt};

std::vector<Grouping> packed(const Json& document, const ModelCosts& costs,
                             const Constraints& constraints = {}) {
  const NodePool pool = pool_of(document);
  const ThroughputModel model(pool, costs);
  const ClusterObjective objective(model, Objective::kThroughput, constraints);
  return packed_groupings(model, objective, 1, kNoLimit);
}

// The last machine, which holds nothing, is slow in all: limits go up to what the model takes on the slowest,
// and a cluster takes longer than its arithmetic.
Json with_slow_node(Json pool) {
  const auto last = static_cast<int>(pool.size()) - 1;  // besides the network
  Json node = node_json(9000, 0.05, 50'000);
  node["benchmarks"]["gflops"] = 10;
  pool[std::to_string(last)] = node;
  return pool;
}

// As many machines as hold the model, and no more: ten of 0.2 GB and a model of 0.4 GB are five clusters.
TEST(Packing, MakesAsManyClustersAsMemoryAllows) {
  Json pool = fast_pool(10, 0, 100'000);
  for (int i = 0; i < 10; ++i) pool[std::to_string(i)]["benchmarks"]["ram"] = 0.2;
  const std::vector<Grouping> found = packed(with_slow_node(pool), chain(4));
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.front().clusters.size(), 5U);
  for (const std::vector<int>& cluster : found.front().clusters) EXPECT_EQ(cluster.size(), 2U);
  EXPECT_THAT(found.front().left_out, testing::ElementsAre(10));
}

// The largest first, completed by the smallest that does: each fast node with a slow one, so that all
// clusters take as long. In twos of a kind the slow ones would make all others wait.
TEST(Packing, CompletesTheFastWithTheSlow) {
  Json pool = fast_pool(6, 0, 100'000);
  for (int i = 0; i < 6; ++i) {
    pool[std::to_string(i)]["benchmarks"]["ram"] = 0.35;  // three segments of four: two nodes hold the model
    pool[std::to_string(i)]["benchmarks"]["gflops"] = i < 3 ? 300 : 100;
  }
  const std::vector<Grouping> found = packed(pool, chain(4));
  ASSERT_FALSE(found.empty());
  ASSERT_EQ(found.front().clusters.size(), 3U);
  for (std::vector<int> cluster : found.front().clusters) {
    ASSERT_EQ(cluster.size(), 2U);
    std::ranges::sort(cluster);
    EXPECT_LT(cluster[0], 3);
    EXPECT_GE(cluster[1], 3);
  }
}

TEST(Packing, StaysWithinRegionsThatAreFarFromEachOther) {
  Json pool = fast_pool(8, 0, 100'000);
  for (int i = 0; i < 8; ++i) {
    pool[std::to_string(i)]["benchmarks"]["ram"] = 0.2;
    pool[std::to_string(i)]["region"] = i % 2 == 0 ? "A" : "B";
  }
  pool["network"]["regions"] =
      Json::parse(R"([{"between": ["A", "B"], "latency_ms": 20, "bandwidth_mbps": 100}])");
  const std::vector<Grouping> found = packed(with_slow_node(pool), chain(4));
  ASSERT_FALSE(found.empty());
  EXPECT_FALSE(found.front().clusters.empty());
  for (const std::vector<int>& cluster : found.front().clusters) {
    for (const int node : cluster) EXPECT_EQ(node % 2, cluster.front() % 2);
  }
}

TEST(Packing, RespectsTheConstraints) {
  for (const Grouping& grouping : packed(fast_pool(9, 0, 100'000), chain(4), {.min_nodes = 2})) {
    for (const std::vector<int>& cluster : grouping.clusters) EXPECT_GE(cluster.size(), 2U);
  }
  for (const Grouping& grouping : packed(fast_pool(9, 0, 100'000), chain(4), {.clusters = 3}))
    EXPECT_LE(grouping.clusters.size(), 3U);
}

TEST(Packing, IsNothingWhereNothingFitsOrTheTimeIsOver) {
  EXPECT_TRUE(packed(equal_nodes(3, 0.1), chain(4)).empty());
  const NodePool pool = pool_of(fast_pool(5, 1, 1000));
  const ModelCosts costs = chain(4);
  const ThroughputModel model(pool, costs);
  const ClusterObjective objective(model, Objective::kThroughput, {});
  EXPECT_TRUE(packed_groupings(model, objective, 1, TimeLimit(1e-9)).empty());
}

Json random_pool(int nodes) {
  Json pool = fast_pool(nodes, *rc::gen::element(0.01, 1.0), *rc::gen::element(100, 10'000));
  for (int i = 0; i < nodes; ++i) {
    Json& node = pool[std::to_string(i)];
    node["benchmarks"]["ram"] = *rc::gen::element(0.15, 0.25, 0.45);
    node["benchmarks"]["gflops"] = *rc::gen::element(20, 50, 100);
    node["region"] = *rc::gen::element(std::string("A"), std::string("B"));
    if (*rc::gen::inRange(0, 5) == 0) node["reachable"] = false;
  }
  return pool;
}

RC_GTEST_PROP(Packing, ItsClustersFitHaveEveryNodeOnceAndTheBestComeFirst, ()) {
  const int nodes = *rc::gen::inRange(1, 13);
  const NodePool pool = pool_of(random_pool(nodes));
  const ModelCosts costs = chain(4);
  const ThroughputModel model(pool, costs);
  const ClusterObjective objective(model, Objective::kThroughput, {.min_nodes = *rc::gen::inRange(1, 4)});
  const std::vector<Grouping> found = packed_groupings(model, objective, 1, kNoLimit);
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::vector<int> all = found[i].left_out;
    for (const std::vector<int>& cluster : found[i].clusters) {
      RC_ASSERT(model.cluster(cluster).fits());
      RC_ASSERT(std::ssize(cluster) >= objective.constraints().min_nodes);
      all.insert(all.end(), cluster.begin(), cluster.end());
    }
    std::ranges::sort(all);
    std::vector<int> expected(nodes);
    std::iota(expected.begin(), expected.end(), 0);
    RC_ASSERT(all == expected);
    if (i > 0) RC_ASSERT(!(objective.score(found[i]) < objective.score(found[i - 1])));
  }
  RC_ASSERT(packed_groupings(model, objective, 3, kNoLimit) == found);
}

RC_GTEST_PROP(Packing, NoGroupingIsBetterThanTheBestOfAllPlans, ()) {
  const NodePool pool = pool_of(with_slow_node(random_pool(*rc::gen::inRange(1, 6))));
  const ModelCosts costs = chain(4);
  const ThroughputModel model(pool, costs);
  const ClusterObjective objective(model, Objective::kThroughput, {});
  const std::vector<Grouping> found = packed_groupings(model, objective, 1, kNoLimit);
  const std::optional<double> best = BruteForce(pool, costs).better_than(1e-9);
  RC_ASSERT(found.empty() || best);
  if (!found.empty()) RC_ASSERT(-objective.score(found.front())[1] <= *best * (1 + 1e-9));
}

}  // namespace
}  // namespace rookery
