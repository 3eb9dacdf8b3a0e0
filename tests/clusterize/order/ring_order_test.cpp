#include "clusterize/order/ring_order.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/clusterize/chain_model.hpp"

namespace rookery {
namespace {

using Matrix = std::vector<std::vector<double>>;

// The slowest way of a ring, there and back again; `order` are rows of the matrix.
double longest(const Matrix& ways, const std::vector<std::size_t>& order) {
  double seconds = 0;
  for (std::size_t i = 0; i < order.size(); ++i)
    seconds = std::max(seconds, ways[order[i]][order[(i + 1) % order.size()]]);
  return seconds;
}

double longest(const ThroughputModel& model, const std::vector<PlacedCluster>& clusters) {
  std::vector<std::size_t> order(clusters.size());
  std::iota(order.begin(), order.end(), 0);
  return longest(model.ring_ways(clusters), order);
}

std::vector<std::vector<int>> members_of(const std::vector<PlacedCluster>& clusters) {
  std::vector<std::vector<int>> members;
  for (const PlacedCluster& cluster : clusters) members.push_back(*cluster.members);
  std::ranges::sort(members);
  return members;
}

// Of one or two nodes each, with links that all differ.
RC_GTEST_PROP(RingOrder, IsTheBestOfAllOrdersOfAFewClusters, ()) {
  const int count = *rc::gen::inRange(2, 8);
  Clusters clusters;
  int nodes = 0;
  for (int c = 0; c < count; ++c) {
    clusters.push_back({nodes++});
    if (*rc::gen::arbitrary<bool>()) clusters.back().push_back(nodes++);
  }
  Json document = fast_pool(nodes, 1, 1000);
  document["network"]["links"] = Json::array();
  for (int a = 0; a < nodes; ++a) {
    for (int b = a + 1; b < nodes; ++b) {
      document["network"]["links"].push_back({{"between", {std::to_string(a), std::to_string(b)}},
                                              {"latency_ms", *rc::gen::inRange(1, 100)},
                                              {"bandwidth_mbps", *rc::gen::element(1, 10, 100)}});
    }
  }
  for (const std::vector<int>& members : clusters) {  // one node of a cluster at most
    if (*rc::gen::inRange(0, 3) == 0) document[std::to_string(members.back())]["reachable"] = false;
  }
  const NodePool pool = pool_of(document);
  const ModelCosts costs = chain(4);
  const ThroughputModel model(pool, costs);
  std::vector<PlacedCluster> arranged = model.placed(clusters);
  RingOrder(model).arrange(arranged);
  RC_ASSERT(members_of(arranged) == members_of(model.placed(clusters)));

  const Matrix ways = model.ring_ways(model.placed(clusters));
  std::vector<std::size_t> order(clusters.size());
  std::iota(order.begin(), order.end(), 0);
  double best = kInfinite;
  do best = std::min(best, longest(ways, order));
  while (std::next_permutation(order.begin() + 1, order.end()));
  RC_ASSERT(longest(model, arranged) == best);
}

// Clusters of one node, several in each region, whose nodes are alike.
Json regions_pool(int regions, int in_each) {
  Json document = fast_pool(regions * in_each, 0.1, 10'000);
  for (int i = 0; i < regions * in_each; ++i)
    document[std::to_string(i)]["region"] = std::string(1, static_cast<char>('A' + i % regions));
  Json ways = Json::array();
  for (int a = 0; a < regions; ++a) {
    for (int b = a + 1; b < regions; ++b) {
      ways.push_back(
          {{"between",
            {std::string(1, static_cast<char>('A' + a)), std::string(1, static_cast<char>('A' + b))}},
           {"latency_ms", *rc::gen::inRange(1, 200)},
           {"bandwidth_mbps", 1000}});
    }
  }
  document["network"]["regions"] = ways;
  return document;
}

Clusters alone(int nodes) {
  Clusters clusters;
  for (int node = 0; node < nodes; ++node) clusters.push_back({node});
  return clusters;
}

// Every ring has a way between any two parts of the clusters, so that none is faster than the slowest way of
// the minimum spanning tree (Prim).
double slowest_of_tree(const Matrix& ways) {
  std::vector<double> nearest = ways[0];
  std::vector<bool> joined(ways.size(), false);
  joined[0] = true;
  double slowest = 0;
  for (std::size_t round = 1; round < ways.size(); ++round) {
    std::size_t next = 0;
    for (std::size_t i = 1; i < ways.size(); ++i) {
      if (!joined[i] && (next == 0 || nearest[i] < nearest[next])) next = i;
    }
    joined[next] = true;
    slowest = std::max(slowest, nearest[next]);
    for (std::size_t i = 0; i < ways.size(); ++i) nearest[i] = std::min(nearest[i], ways[next][i]);
  }
  return slowest;
}

// A region that can be passed as often as a tree needs it: as many clusters as there are regions.
RC_GTEST_PROP(RingOrder, IsAsFastAsTheSpanningTreeWhereRegionsHaveClustersEnough, ()) {
  const int regions = *rc::gen::inRange(3, 6);
  const NodePool pool = pool_of(regions_pool(regions, regions));
  const ModelCosts costs = chain(4);
  const ThroughputModel model(pool, costs);
  const Clusters clusters = alone(model.nodes());
  std::vector<PlacedCluster> arranged = model.placed(clusters);
  RingOrder(model).arrange(arranged);
  RC_ASSERT(members_of(arranged) == members_of(model.placed(clusters)));
  RC_ASSERT(longest(model, arranged) <=
            slowest_of_tree(model.ring_ways(model.placed(clusters))) * (1 + 1e-9));
}

// A third of many clusters has a node that cannot be reached.
RC_GTEST_PROP(RingOrder, PutsClustersBetweenThoseWhoseNodesCannotConnect, ()) {
  const int regions = *rc::gen::inRange(1, 5);
  const int in_each = *rc::gen::inRange(9, 15) / regions + 1;
  Json document = regions_pool(regions, in_each);
  const int nodes = regions * in_each;
  for (int unreachable = 0; unreachable < nodes / 3; ++unreachable)
    document[std::to_string(*rc::gen::inRange(0, nodes))]["reachable"] = false;
  const NodePool pool = pool_of(document);
  const ModelCosts costs = chain(4);
  const ThroughputModel model(pool, costs);
  const Clusters clusters = alone(nodes);
  std::vector<PlacedCluster> arranged = model.placed(clusters);
  RingOrder(model).arrange(arranged);
  RC_ASSERT(members_of(arranged) == members_of(model.placed(clusters)));
  RC_ASSERT(longest(model, arranged) < kInfinite);
}

}  // namespace
}  // namespace rookery
