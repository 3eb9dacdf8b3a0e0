// A plan with what it was made of: the planner makes it, simulation and reports read it.
#pragma once

#include <vector>

#include "clusterize/costs/cost_model.hpp"
#include "clusterize/plan/cluster_plan.hpp"
#include "models/graph/stage.hpp"

namespace rookery {

struct Planned {
  ClusterPlan plan;
  std::vector<std::vector<Stage>> stages;  // by cluster and stage
  Clusters members;                        // nodes of the pool, likewise
  std::vector<StagePartition> cuts;        // by cluster
};

}  // namespace rookery
