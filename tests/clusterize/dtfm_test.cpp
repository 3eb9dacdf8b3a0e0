#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "bench/dtfm_objective.hpp"
#include "clusterize/genetic_search.hpp"
#include "tests/clusterize/plan_support.hpp"

namespace rookery {
namespace {

using Groups = std::vector<std::vector<int>>;

double way(const NodePool& pool, int i, int j, double gigabytes) {
  const LinkSpeed link = pool.link(static_cast<std::size_t>(i), static_cast<std::size_t>(j));
  return link.latency_ms / 1e3 + 8 * gigabytes / (link.bandwidth_mbps / 1e3);
}

// The formula word for word, with all matchings and all paths.
double cost_by_definition(const NodePool& pool, Groups groups) {
  double exchange = 0;
  for (const std::vector<int>& group : groups) {
    for (const int i : group) {
      double sum = 0;
      for (const int j : group) {
        if (j != i) sum += 2 * way(pool, i, j, 0.65 / static_cast<double>(group.size()));
      }
      exchange = std::max(exchange, sum);
    }
  }
  const auto edge = [&](const std::vector<int>& a, std::vector<int> b) {
    double least = std::numeric_limits<double>::infinity();
    std::ranges::sort(b);
    do {
      double longest = 0;
      for (std::size_t k = 0; k < a.size(); ++k)
        longest = std::max(longest, way(pool, a[k], b[k], 0.47124922275543213));
      least = std::min(least, longest);
    } while (std::ranges::next_permutation(b).found);
    return least;
  };
  std::ranges::sort(groups);
  double shortest = std::numeric_limits<double>::infinity();
  do {
    double length = 0;
    for (std::size_t g = 1; g < groups.size(); ++g) length += edge(groups[g - 1], groups[g]);
    shortest = std::min(shortest, length);
  } while (std::ranges::next_permutation(groups).found);
  return exchange + 2 * shortest;
}

// Nodes in four regions with links that all differ.
NodePool uneven_pool(int nodes, std::uint64_t seed) {
  Json pool = equal_nodes(nodes);
  CounterRng rng(rng_key(seed, "dtfm_test"), 0);
  for (auto& node : pool) node["benchmarks"]["bandwidth"] = 100'000;
  Json links = Json::array();
  for (int a = 0; a < nodes; ++a) {
    for (int b = a + 1; b < nodes; ++b) {
      links.push_back({{"between", {std::to_string(a), std::to_string(b)}},
                       {"latency_ms", rng.next_below(200)},
                       {"bandwidth_mbps", 100 + rng.next_below(2000)}});
    }
  }
  pool["network"] = {{"links", links}};
  return pool_of(pool);
}

TEST(Dtfm, IsTheFormula) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const NodePool pool = uneven_pool(12, seed);
    const DtfmObjective objective(pool);
    const std::vector<std::int64_t> order = random_permutation(12, rng_key(seed, "order"), 0);
    for (const int groups : {1, 3, 4}) {
      const Grouping grouping = deal({order.begin(), order.end()}, groups);
      EXPECT_NEAR(objective.score(grouping)[0], cost_by_definition(pool, grouping.clusters), 1e-9);
    }
  }
}

TEST(Dtfm, TheSearchFindsTheBestOfAllGroupings) {
  const NodePool pool = uneven_pool(8, 1);
  const DtfmObjective objective(pool);
  std::vector<int> order(8);
  std::iota(order.begin(), order.end(), 0);
  const Grouping first = deal(order, 4);
  double least = std::numeric_limits<double>::infinity();
  do {
    least = std::min(least, objective.score(deal(order, 4))[0]);
  } while (std::ranges::next_permutation(order).found);
  for (const int threads : {1, 3}) {
    const Individual found =
        genetic_search(objective, {first}, {.threads = threads, .evaluations = 20'000, .patience = 10});
    EXPECT_EQ(found.score[0], least);
    for (const std::vector<int>& group : found.grouping.clusters) EXPECT_EQ(group.size(), 2U);
  }
}

TEST(Dtfm, APublishedPoolIsPlannedAsWellAsInThePaper) {
  const NodePool pool = NodePool::read(ROOKERY_SOURCE_DIR "/bench/dtfm/case2_two_universities.json");
  const DtfmObjective objective(pool);
  std::vector<int> order(64);
  std::iota(order.begin(), order.end(), 0);
  std::vector<Grouping> seeds;
  for (const std::size_t stride : {1, 2, 4, 8}) seeds.push_back(deal(spread(order, stride), 8));
  const Individual found = genetic_search(objective, seeds, {.evaluations = 12'000, .patience = 10});
  EXPECT_LE(found.score[0], 16.0875);
}

}  // namespace
}  // namespace rookery
