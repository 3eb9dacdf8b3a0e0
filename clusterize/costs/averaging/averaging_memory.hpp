// The memory of stages in plans of several clusters, which takes averaging into account.
#pragma once

#include <memory>
#include <vector>

#include "clusterize/costs/memory_model.hpp"
#include "models/graph/graph.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// Adds to `memory` the copies that averaging keeps of what a stage has, and `ring_bytes` for the buffers of
// its rings. `begins`: first op of every segment.
std::shared_ptr<const MemoryModel> with_averaging(std::shared_ptr<const MemoryModel> memory,
                                                  const Graph& graph, const std::vector<OpId>& begins,
                                                  const TrainingSettings& settings, std::int64_t ring_bytes);

}  // namespace rookery
