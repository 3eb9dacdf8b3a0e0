// Groupings of large pools, by how many clusters keep within given limits.
#pragma once

#include <vector>

#include "clusterize/genetic/time_limit.hpp"
#include "clusterize/search/cluster_objective.hpp"

namespace rookery {

// For the objective kThroughput. Samples per second are clusters by (longest step + averaging), and averaging
// is twice the clusters by the slowest message: of two limits, on the step and on a connection's load, and a
// set of regions follow how many clusters there can be, packed as bin covering (Csirik, Frenk, Labbé, Zhang
// 1999: the largest first, completed by the smallest that does). Limits are tried from coarse to fine; the
// sets of regions are the components of their graph at each speed of a way. The best groupings come first.
// The same for any number of threads. Where a share of the time is over before all limits are tried, those
// that were.
std::vector<Grouping> packed_groupings(const ThroughputModel& model, const ClusterObjective& objective,
                                       int threads, const TimeLimit& limit);

}  // namespace rookery
