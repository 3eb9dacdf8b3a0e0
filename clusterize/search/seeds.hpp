// Groupings that the genetic search begins with, taken from the structure of the pool.
#pragma once

#include <vector>

#include "clusterize/genetic/time_limit.hpp"
#include "clusterize/search/cluster_objective.hpp"
#include "models/base/rng.hpp"

namespace rookery {

// At least one, with the members of every cluster arranged: nodes by id, region, memory and speed, dealt
// into few and many clusters alike, or spread over them so that each gets as much (the plain grouping by RAM
// and bandwidth of Ravnest, arXiv 2401.01728); filled up until a cluster holds the model; the nearest by
// bandwidth together; the best alone; and at random.
// Where a share of the time is over before all are arranged, the first of them.
std::vector<Grouping> structured_seeds(const ThroughputModel& model, const ClusterObjective& objective,
                                       RngKey key, int threads, const TimeLimit& limit);

}  // namespace rookery
