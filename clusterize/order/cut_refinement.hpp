// Changes the cuts of clusters until they suit each other.
#pragma once

#include "clusterize/costs/cost_model.hpp"

namespace rookery {

// CostModel::throughput(), and then boundaries between stages are moved, one or two at a time, as long as the
// averaging gains more by it than the steps lose. In large plans they stay.
Throughput refined_throughput(const CostModel& model, const Clusters& clusters);

}  // namespace rookery
