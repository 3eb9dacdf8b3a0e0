// Nodes put into clusters: the individuals of the genetic search and the ways to vary them, after
// Falkenauer's grouping genetic algorithm ("A hybrid grouping genetic algorithm for bin packing",
// Journal of Heuristics 2, 1996): a gene is a whole cluster, and crossover hands on clusters.
#pragma once

#include <vector>

#include "models/base/rng.hpp"

namespace rookery {

struct Grouping {
  std::vector<std::vector<int>> clusters;  // nodes in the order of their stages; none is empty
  std::vector<int> left_out;
  bool operator==(const Grouping&) const = default;
};

// `order` dealt into `clusters` runs of nearly equal length, the shorter ones first.
Grouping deal(const std::vector<int>& order, int clusters);

// A copy changed at random: a node moves (to another place, a new cluster, out or in), two nodes
// change places, two clusters merge, or one splits.
Grouping mutate(const Grouping& parent, CounterRng& rng);

// Some clusters of `donor`, and of `base` the clusters without their nodes.
Grouping cross(const Grouping& base, const Grouping& donor, CounterRng& rng);

// Every grouping that is one exchange or one move of a node away, in a fixed order.
std::vector<Grouping> neighbours(const Grouping& grouping);

}  // namespace rookery
