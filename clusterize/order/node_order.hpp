// Puts the nodes of a cluster on its stages, from the Root to the Leaf: in the order that makes the shortest
// step, of those where the model fits and the fewest stages are without parameters.
#pragma once

#include <map>
#include <vector>

#include "clusterize/costs/throughput_model.hpp"

namespace rookery {

struct OrderEffort {
  int exact_nodes = 8;   // up to so many, branch and bound; beyond, local search
  int pushes = 3'000;    // of nodes onto a row, at which branch and bound ends with its best so far
  int evaluations = 40;  // of whole rows by local search
};

// The best found, exact where branch and bound came to its end. `stages` gives the stage that a node has
// to have. A function of the set of members.
std::vector<int> best_order(const ThroughputModel& model, std::vector<int> members,
                            const std::map<int, int>& stages, const OrderEffort& effort);

}  // namespace rookery
