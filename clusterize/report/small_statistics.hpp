// Warns of a plan whose steps are too small to normalise by.
#pragma once

#include <optional>
#include <string>

#include "clusterize/costs/training_task.hpp"
#include "clusterize/plan/cluster_plan.hpp"

namespace rookery {

// Where BatchNormalization has fewer than kLeastStatistics samples in every micro-batch of a step on some
// cluster: which step that is, and what to change in train.json. Nothing where there is none.
std::optional<std::string> small_statistics(const TrainingTask& task, const ClusterPlan& plan);

}  // namespace rookery
