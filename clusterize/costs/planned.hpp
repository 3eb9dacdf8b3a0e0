// A plan with what it was made of: the planner makes it, simulation and reports read it.
#pragma once

#include <vector>

#include "clusterize/costs/throughput_model.hpp"
#include "clusterize/costs/training_task.hpp"
#include "clusterize/plan/cluster_plan.hpp"
#include "models/graph/stage.hpp"
#include "trainer/trainer.hpp"

namespace rookery {

struct Planned {
  ClusterPlan plan;
  std::vector<std::vector<Stage>> stages;  // by cluster and stage
  // The task's machines, those with several stages as often as they have some (NodePool::divided()).
  NodePool pool;
  Clusters members;  // nodes of this pool, by cluster and stage
  // The clusters as they were searched: machines of the task's pool, in the order of their first stages.
  Clusters machines;
  std::vector<StagePartition> cuts;  // by cluster
  // The costs that it was searched by, with what was learned of the memory of its stages
  // (MemoryModel::refine).
  ModelCosts costs;
};

// Whether its stages make updates ahead (StageWorker): where gradients are averaged nobody could take them
// back alone.
inline bool updates_ahead(const TrainingTask& task, const ClusterPlan& plan) {
  return plan.clusters.size() == 1 && may_update_ahead(task.settings, task.graph);
}

// How the stages of a cluster with these links send each other values and gradients.
inline EdgeEncoding encoding_of(const TrainingTask& task, const std::vector<PlannedLink>& links) {
  EdgeEncoding encoding = encoding_of(task);
  for (const PlannedLink& link : links) encoding.set({link.from, link.to}, link.transport);
  return encoding;
}

}  // namespace rookery
