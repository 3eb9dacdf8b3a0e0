// Digests name a plan and what it was made from.
#pragma once

#include <string>

#include "clusterize/costs/training_task.hpp"
#include "clusterize/plan/cluster_plan.hpp"
#include "clusterize/pool/node_pool.hpp"
#include "models/graph/state/state_dict.hpp"

namespace rookery {

// ClusterPlan::plan_id: a digest of everything that decides the run, which is who trains what on which data,
// cut how, computed by which kernels. 16 hex digits, as all of these.
std::string plan_id_of(const TrainingTask& task, const NodePool& pool, const ClusterPlan& plan);

// The digest of names and elements: TrainingTask::weights.
std::string weights_digest(const StateDict& state);

}  // namespace rookery
