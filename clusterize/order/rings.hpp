// Rings say which nodes average which parameters with each other.
#pragma once

#include <vector>

#include "clusterize/plan/cluster_plan.hpp"
#include "models/graph/stage.hpp"
#include "trainer/averaging/averagers.hpp"

namespace rookery {

// The rings of clusters that are cut from one graph like this, numbered from 0. In the order in which ops
// first use averaged_values(), as each stage's graph has its own, a new ring begins wherever one of them lies
// on another stage than the one before it, in any cluster. So no two rings have the same nodes.
std::vector<Ring> make_rings(const std::vector<std::vector<Stage>>& clusters);

AveragedLoad load_of(const Ring& ring);

}  // namespace rookery
