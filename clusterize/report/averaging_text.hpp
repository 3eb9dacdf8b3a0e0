// Texts that tell how the clusters of a plan average.
#pragma once

#include <string>

#include "clusterize/plan/cluster_plan.hpp"
#include "trainer/settings/averaging.hpp"

namespace rookery {

// "gradients of every step", "parameters every 16 steps as int8, beside the next 4".
std::string averaging_text(const AveragingSettings& averaging);
// Lines: of a plan of several clusters, and of a choice that was made.
std::string describe_averaging(const ClusterPlan& plan);

}  // namespace rookery
