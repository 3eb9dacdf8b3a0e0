// Rings say which nodes average which parameters with each other.
#pragma once

#include <vector>

#include "clusterize/plan/cluster_plan.hpp"
#include "models/graph/stage.hpp"

namespace rookery {

// The rings of clusters cut like this, numbered from 0: in graph order, a new one begins wherever a
// parameter lies on another stage than the one before it, in any cluster.
std::vector<Ring> make_rings(const Graph& graph, const std::vector<std::vector<Stage>>& clusters);

}  // namespace rookery
