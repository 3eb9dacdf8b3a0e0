// How many micro-batches the stages of a cluster have in flight is decided here: as many as keep the busiest
// of them busy while others are on their way, as far as memory goes, where the simulated step is shorter so.
#pragma once

#include <vector>

#include "clusterize/costs/planned.hpp"
#include "clusterize/costs/step_parts.hpp"
#include "clusterize/costs/training_task.hpp"
#include "clusterize/pool/node_pool.hpp"

namespace rookery {

// By stage, of the cluster with these parts. `planned` has its stages with the usual number in flight,
// with which they fit; the answer is that number where more are of no use. `planned` is as before afterwards.
std::vector<int> choose_in_flight(const TrainingTask& task, const NodePool& pool, Planned& planned,
                                  std::size_t cluster, const StepParts& parts);

}  // namespace rookery
