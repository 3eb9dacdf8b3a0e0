// Writes groupings that are the same but for the names of equal nodes in one way.
#pragma once

#include "clusterize/costs/throughput_model.hpp"
#include "clusterize/genetic/grouping.hpp"

namespace rookery {

// Gives interchangeable nodes their places in rising order of their ids and sorts the clusters by
// their Root.
Grouping canonical(const ThroughputModel& model, const Grouping& grouping);

}  // namespace rookery
