// Changes the cuts of clusters until they suit each other.
#pragma once

#include "clusterize/costs/throughput_model.hpp"

namespace rookery {

// ThroughputModel::throughput(), and then boundaries between stages are moved, one or two at a time, as long
// as the averaging gains more by it than the steps lose. In large plans they stay.
Throughput refined_throughput(const ThroughputModel& model, const Clusters& clusters);

}  // namespace rookery
