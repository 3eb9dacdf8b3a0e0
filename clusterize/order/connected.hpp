// A grouping whose nodes can connect.
#pragma once

#include "clusterize/costs/throughput_model.hpp"
#include "clusterize/genetic/grouping.hpp"

namespace rookery {

// Without nodes that others cannot reach, as far as they are too many: in a cluster all but the first, and
// then whole clusters, the last first, until no more than half have such a node, so that in the rings others
// can stand between them. As it is where the pool has no two such nodes.
Grouping connected(const ThroughputModel& model, Grouping grouping);

}  // namespace rookery
