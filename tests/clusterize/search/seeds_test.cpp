#include "clusterize/search/seeds.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/clusterize/chain_model.hpp"

namespace rookery {
namespace {

using testing::Contains;

const RngKey kKey = rng_key(7, "seeds_test");

// Sets of nodes: what is in a cluster, whatever the order.
std::vector<std::vector<int>> sets_of(const Grouping& grouping) {
  std::vector<std::vector<int>> sets = grouping.clusters;
  for (std::vector<int>& cluster : sets) std::ranges::sort(cluster);
  std::ranges::sort(sets);
  return sets;
}

std::vector<std::vector<std::vector<int>>> seeds_of(const Json& document, const ModelCosts& costs,
                                                    const Constraints& constraints = {}) {
  const NodePool pool = pool_of(document);
  const ThroughputModel model(pool, costs);
  const ClusterObjective objective(model, Objective::kThroughput, constraints);
  std::vector<std::vector<std::vector<int>>> all;
  for (const Grouping& seed : structured_seeds(model, objective, kKey, 1, TimeLimit(std::nullopt)))
    all.push_back(sets_of(seed));
  return all;
}

TEST(Seeds, AreTheWholePoolTogetherAndEachAlone) {
  const auto seeds = seeds_of(fast_pool(4, 1, 1000), chain(6));
  EXPECT_THAT(seeds, Contains(std::vector<std::vector<int>>{{0, 1, 2, 3}}));
  EXPECT_THAT(seeds, Contains(std::vector<std::vector<int>>{{0}, {1}, {2}, {3}}));
  EXPECT_THAT(seeds, Contains(std::vector<std::vector<int>>{{0}})) << "one, and nobody else";
}

// Dealt in the order of what they have, the strong are together; spread, each cluster has as much.
TEST(Seeds, DealAndSpreadTheStrongAndTheWeak) {
  Json pool = fast_pool(4, 1, 1000);
  const double ram[] = {16, 2, 8, 4};
  for (int i = 0; i < 4; ++i) pool[std::to_string(i)]["benchmarks"]["ram"] = ram[i];
  const auto seeds = seeds_of(pool, chain(6), {.min_nodes = 2});
  EXPECT_THAT(seeds, Contains(std::vector<std::vector<int>>{{0, 2}, {1, 3}}));  // 16 + 8 and 4 + 2
  EXPECT_THAT(seeds, Contains(std::vector<std::vector<int>>{{0, 3}, {1, 2}}));  // 16 + 4 and 8 + 2
}

TEST(Seeds, PutRegionsTogether) {
  Json pool = fast_pool(6, 1, 1000);
  for (const int i : {0, 3, 4}) pool[std::to_string(i)]["region"] = "A";
  for (const int i : {1, 2, 5}) pool[std::to_string(i)]["region"] = "B";
  EXPECT_THAT(seeds_of(pool, chain(6), {.min_nodes = 3}),
              Contains(std::vector<std::vector<int>>{{0, 3, 4}, {1, 2, 5}}));
}

// Clusters are filled until they hold the model: 0.6 GB, of nodes with 0.2 GB.
TEST(Seeds, FillClustersUntilTheyHoldTheModel) {
  Json pool = fast_pool(7, 1, 1000);
  for (int i = 0; i < 7; ++i) pool[std::to_string(i)]["benchmarks"]["ram"] = 0.2;
  const auto seeds = seeds_of(pool, chain(6));
  EXPECT_THAT(seeds, Contains(std::vector<std::vector<int>>{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_THAT(seeds, Contains(std::vector<std::vector<int>>{{0, 1, 2}})) << "half of them";
}

// The link from 0 to 3, from 3 to 1 and from 1 to 2 are the fastest that are left, each time.
TEST(Seeds, PutTheNearestTogether) {
  Json pool = fast_pool(4, 50, 100);
  Json& links = pool["network"]["links"];
  links = Json::array();
  links.push_back({{"between", {"0", "3"}}, {"latency_ms", 1}, {"bandwidth_mbps", 1000}});
  links.push_back({{"between", {"1", "2"}}, {"latency_ms", 1}, {"bandwidth_mbps", 1000}});
  EXPECT_THAT(seeds_of(pool, chain(6), {.min_nodes = 2}),
              Contains(std::vector<std::vector<int>>{{0, 3}, {1, 2}}));
}

TEST(Seeds, AreThereHoweverLittleTimeThereIs) {
  const NodePool pool = pool_of(fast_pool(5, 1, 1000));
  const ModelCosts costs = chain(6);
  const ThroughputModel model(pool, costs);
  const ClusterObjective objective(model, Objective::kThroughput, {});
  EXPECT_EQ(structured_seeds(model, objective, kKey, 2, TimeLimit(1e-9)).size(), 1U);
}

// Each takes long to arrange.
TEST(Seeds, OfALargePoolAreFew) {
  constexpr int kNodes = 3000;
  const NodePool pool = pool_of(equal_nodes(kNodes));
  const ModelCosts costs = chain(6);
  const ThroughputModel model(pool, costs);
  const ClusterObjective objective(model, Objective::kSimilar, {.min_nodes = 3});
  const std::size_t seeds = structured_seeds(model, objective, kKey, 1, TimeLimit(std::nullopt)).size();
  EXPECT_GE(seeds, 40U);
  EXPECT_LE(seeds, 100U);
}

RC_GTEST_PROP(Seeds, HaveEveryNodeOnceInTheOrderOfTheObjectiveAndAreTheSameForAnyNumberOfThreads, ()) {
  const int nodes = *rc::gen::inRange(1, 9);
  Json document = fast_pool(nodes, 1, 100);
  for (int i = 0; i < nodes; ++i) {
    document[std::to_string(i)]["benchmarks"]["ram"] = *rc::gen::element(0.1, 0.3, 8.0);
    document[std::to_string(i)]["benchmarks"]["gflops"] = *rc::gen::element(10, 100);
    document[std::to_string(i)]["region"] = *rc::gen::element(std::string("A"), std::string("B"));
    if (*rc::gen::inRange(0, 4) == 0) document[std::to_string(i)]["reachable"] = false;
  }
  const NodePool pool = pool_of(document);
  const ModelCosts costs = chain(*rc::gen::inRange(1, 7));
  const ThroughputModel model(pool, costs);
  const ClusterObjective objective(model, Objective::kThroughput, {.min_nodes = *rc::gen::inRange(1, 4)});
  const RngKey key = rng_key(*rc::gen::inRange<std::uint64_t>(0, 100), "seeds");
  const std::vector<Grouping> seeds = structured_seeds(model, objective, key, 1, TimeLimit(std::nullopt));
  RC_ASSERT(!seeds.empty());
  for (const Grouping& seed : seeds) {
    std::vector<int> all = seed.left_out;
    for (std::vector<int> cluster : seed.clusters) {
      RC_ASSERT(!cluster.empty());
      all.insert(all.end(), cluster.begin(), cluster.end());
      const std::vector<int> as_it_is = cluster;
      objective.arrange(cluster);
      RC_ASSERT(cluster == as_it_is);
    }
    std::ranges::sort(all);
    std::vector<int> expected(nodes);
    std::iota(expected.begin(), expected.end(), 0);
    RC_ASSERT(all == expected);
  }
  RC_ASSERT(structured_seeds(model, objective, key, 3, TimeLimit(std::nullopt)) == seeds);
}

}  // namespace
}  // namespace rookery
