#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "bench/dtfm_objective.hpp"
#include "bench/dtfm_proof.hpp"
#include "clusterize/genetic/genetic_search.hpp"
#include "tests/clusterize/plan_support.hpp"
#include "tests/support/repository.hpp"

namespace rookery {
namespace {

using Groups = std::vector<std::vector<int>>;

double way(const NodePool& pool, int i, int j, double gigabytes) {
  const LinkSpeed link = pool.link(i, j);
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
NodePool pool_of_unequal_nodes(int nodes, std::uint64_t seed) {
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

// Nodes in regions of these sizes; links of few different values, within regions and between them, or those
// within are the fastest ones.
NodePool pool_of_regions(const std::vector<int>& sizes, std::uint64_t seed) {
  Json pool = equal_nodes(std::accumulate(sizes.begin(), sizes.end(), 0));
  CounterRng rng(rng_key(seed, "dtfm_test.regions"), 0);
  Json links = Json::array();
  int node = 0;
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    for (int i = 0; i < sizes[a]; ++i, ++node) {
      pool[std::to_string(node)]["region"] = std::to_string(a);
      pool[std::to_string(node)]["benchmarks"]["bandwidth"] = 100'000;
    }
    for (std::size_t b = 0; b <= a; ++b) {
      const bool is_fastest = a == b && seed % 2 == 0;
      const std::uint64_t latency = rng.next_below(3);
      const std::uint64_t doublings = rng.next_below(5);
      links.push_back({{"between", {std::to_string(a), std::to_string(b)}},
                       {"latency_ms", is_fastest ? 0 : 100 * latency},
                       {"bandwidth_mbps", 300 << (is_fastest ? 5 : doublings)}});
    }
  }
  pool["network"] = {{"regions", links}};
  return pool_of(pool);
}

// Calls visit(groups) with all ways to put nodes into `groups`, which start empty, as many into each.
template <typename Visit>
void for_each_grouping(int node, int nodes, Groups& groups, const Visit& visit) {
  if (node == nodes) {
    visit(groups);
    return;
  }
  const std::size_t size = static_cast<std::size_t>(nodes) / groups.size();
  for (std::vector<int>& group : groups) {
    const bool is_new = group.empty();
    if (group.size() < size) {
      group.push_back(node);
      for_each_grouping(node + 1, nodes, groups, visit);
      group.pop_back();
    }
    if (is_new) break;  // the empty ones are alike
  }
}

double least_of_all_groupings(const DtfmObjective& objective, int nodes, std::size_t groups) {
  double least = std::numeric_limits<double>::infinity();
  Groups empty(groups);
  for_each_grouping(0, nodes, empty, [&](const Groups& all) {
    least = std::min(least, objective.score({.clusters = all, .left_out = {}})[0]);
  });
  return least;
}

void expect_least_is_proven(const NodePool& pool, std::size_t groups) {
  const DtfmObjective objective(pool);
  const int nodes = static_cast<int>(pool.nodes().size());
  const double least = least_of_all_groupings(objective, nodes, groups);
  for (const double known : {std::numeric_limits<double>::infinity(), least + 1e-6}) {
    const std::optional<Grouping> best = grouping_below(known, pool, objective, groups);
    ASSERT_TRUE(best.has_value());
    EXPECT_NEAR(objective.score(*best)[0], least, 1e-9);
    std::vector<int> members;
    for (const std::vector<int>& group : best->clusters) {
      EXPECT_EQ(group.size() * groups, pool.nodes().size());
      members.insert(members.end(), group.begin(), group.end());
    }
    std::ranges::sort(members);
    std::vector<int> all(pool.nodes().size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(members, all);
  }
  EXPECT_FALSE(grouping_below(least, pool, objective, groups).has_value());
}

TEST(Dtfm, IsTheFormula) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const NodePool pool = pool_of_unequal_nodes(12, seed);
    const DtfmObjective objective(pool);
    const std::vector<std::int64_t> order = random_permutation(12, rng_key(seed, "order"), 0);
    for (const int groups : {1, 3, 4}) {
      const Grouping grouping = deal({order.begin(), order.end()}, groups);
      EXPECT_NEAR(objective.score(grouping)[0], cost_by_definition(pool, grouping.clusters), 1e-9);
    }
  }
}

TEST(Dtfm, TheSearchFindsTheBestOfAllGroupings) {
  const NodePool pool = pool_of_unequal_nodes(8, 1);
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

TEST(Dtfm, TheProofFindsTheBestOfAllGroupings) {
  struct Shape {
    std::vector<int> regions;
    std::size_t groups;
  };
  for (const auto& [regions, groups] : std::vector<Shape>{{{6, 6}, 4},
                                                          {{6, 3, 3}, 4},
                                                          {{5, 4, 1, 2}, 3},
                                                          {{4, 4, 2}, 5},
                                                          {{2, 2, 3, 2, 1}, 5},
                                                          {{3, 4, 2, 1}, 2},
                                                          {{4}, 1},
                                                          {{4, 4, 4}, 6},
                                                          {{2, 3, 2}, 7}}) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      SCOPED_TRACE(fmt::format("{} regions, {} groups, seed {}", regions.size(), groups, seed));
      expect_least_is_proven(pool_of_regions(regions, seed), groups);
    }
  }
  expect_least_is_proven(pool_of_unequal_nodes(9, 1), 3);
}

TEST(Dtfm, TheLeastCostOfPublishedPoolsIsProven) {
  for (const auto& [name, least] :
       {std::pair("case2_two_universities", 16.08684), std::pair("case3_us_regions", 34.80204)}) {
    const NodePool pool = NodePool::read(fmt::format("{}/bench/dtfm/{}.json", kRepository.string(), name));
    const DtfmObjective objective(pool);
    const std::optional<Grouping> best =
        grouping_below(std::numeric_limits<double>::infinity(), pool, objective, 8);
    ASSERT_TRUE(best.has_value());
    EXPECT_NEAR(objective.score(*best)[0], least, 1e-5);
  }
}

TEST(Dtfm, APublishedPoolIsPlannedAsWellAsInThePaper) {
  const NodePool pool = NodePool::read(kRepository / "bench/dtfm/case2_two_universities.json");
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
