// Planned links say what the stages of a cluster send each other, and how long that takes.
#pragma once

#include <span>
#include <vector>

#include "clusterize/plan/cluster_plan.hpp"
#include "clusterize/pool/node_pool.hpp"
#include "trainer/encoding/edge_encoding.hpp"

namespace rookery {

// Between any two stages that exchange values of a micro-batch of `micro_batch` samples, by stages.
// `members`: nodes of the pool by stage.
std::vector<PlannedLink> planned_links(const NodePool& pool, const std::vector<int>& members,
                                       std::span<const Stage> stages, std::int64_t micro_batch,
                                       const EdgeEncoding& encoding);

}  // namespace rookery
