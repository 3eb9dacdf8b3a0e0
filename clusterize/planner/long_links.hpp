// What fills fast links over long ways: how many connections carry what two nodes send each other, and how
// much rings have under way on them. A connection has at most its sockets' buffers under way, which over a
// long way is less than the way carries (striping: PCCL, arXiv 2505.14065).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "clusterize/costs/planned.hpp"
#include "clusterize/costs/training_task.hpp"
#include "clusterize/pool/node_pool.hpp"

namespace rookery {

// As many as bandwidth times round trip needs, kMostDataConnections at most.
int data_connections(const LinkSpeed& link);
// Bytes that fill the links of a ring, from each member to the next, as far as kMostDataConnections carry
// them; nothing where kRingUnderWay does.
std::optional<std::uint64_t> ring_under_way(std::span<const LinkSpeed> links);
// Writes into a plan that is decided otherwise what there is of each two nodes that talk: those of a cluster,
// and neighbours in a ring or among the Roots; and adds to the memory of stages what comes over several, as
// much of which may have overtaken the rest, and what the buffers of rings take more. Stages whose machines
// have no memory for that are left one, and rings what they have by themselves.
void fill_long_links(const TrainingTask& task, const NodePool& pool, Planned& planned);

}  // namespace rookery
