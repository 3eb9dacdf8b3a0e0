// Warns of a plan that cuts batches whose samples act on each other.
#pragma once

#include <optional>
#include <string>

#include "clusterize/costs/training_task.hpp"
#include "clusterize/plan/cluster_plan.hpp"

namespace rookery {

// Where the model has mixing_ops() and a batch is cut into micro-batches or shared by clusters: which ops
// they are, of how many samples each sees, and what to change in train.json. Nothing where there is none.
std::optional<std::string> mixed_samples(const TrainingTask& task, const ClusterPlan& plan);

}  // namespace rookery
