// Nodes put into clusters: the individuals of the genetic search and the ways to vary them, after
// Falkenauer's grouping genetic algorithm ("A hybrid grouping genetic algorithm for bin packing",
// Journal of Heuristics 2, 1996): a gene is a whole cluster, and crossover hands on clusters.
#pragma once

#include <functional>
#include <vector>

#include "models/base/rng.hpp"

namespace rookery {

struct Grouping {
  std::vector<std::vector<int>> clusters;  // nodes in the order of their stages; none is empty
  std::vector<int> left_out;
  bool operator==(const Grouping&) const = default;
};

// The rules that varied groupings keep.
struct Variation {
  bool fixed_sizes = false;  // number and sizes of the clusters stay, and nobody is left out
  // Puts the nodes of a cluster that was changed into a good order; may be empty.
  std::function<void(std::vector<int>&)> arrange;
};

// `order` dealt into `clusters` runs of nearly equal length, the shorter ones first.
Grouping deal(const std::vector<int>& order, int clusters);

// Every `stride`-th of `order` from the first, then from the second, and so on: what was together is
// spread.
std::vector<int> spread(const std::vector<int>& order, std::size_t stride);

// Changed at random: a node moves (to another place, a new cluster, out or in), two nodes change
// places, two clusters merge, one splits, is dissolved, or is put into another order. `fixed_sizes`: two
// nodes change places.
void mutate(Grouping& grouping, CounterRng& rng, const Variation& variation);

// Some clusters of `donor`, and of `base` the clusters without their nodes. `fixed_sizes`: those clusters
// of `base` that keep most of their nodes, filled up with the nodes of the others; both have the same
// sizes.
Grouping cross(const Grouping& base, const Grouping& donor, CounterRng& rng, const Variation& variation);

// Every grouping that is one exchange or one move of a node away, in a fixed order, until `visit` returns
// false. It may change its argument.
void for_each_neighbour(const Grouping& grouping, const Variation& variation,
                        const std::function<bool(Grouping&)>& visit);

}  // namespace rookery
