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
  // The costs that it was searched by, with what was learned of the memory of its stages
  // (MemoryModel::refine).
  ModelCosts costs;
};

}  // namespace rookery
