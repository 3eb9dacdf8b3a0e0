// Nodes of a pool that are the same to the planner form a class.
#pragma once

#include <set>
#include <vector>

#include "clusterize/pool/node_pool.hpp"

namespace rookery {

// By node: the first node that it can change places with without any effect; itself where it is special.
std::vector<int> node_equivalence(const NodePool& pool, const std::set<int>& special);

}  // namespace rookery
