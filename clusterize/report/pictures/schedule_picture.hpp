// One simulated step drawn: what every node computes and sends when.
#pragma once

#include <string>

#include "clusterize/costs/planned.hpp"
#include "clusterize/costs/training_task.hpp"
#include "clusterize/pool/node_pool.hpp"
#include "clusterize/report/bottleneck.hpp"

namespace rookery {

// Larger plans show the slowest clusters only, and say so.
constexpr std::size_t kMostRowsDrawn = 48;

// An SVG file, of a step of a full batch; a function of its arguments alone. `pool` is the plan's.
std::string schedule_picture(const TrainingTask& task, const NodePool& pool, const Planned& planned,
                             const Bottleneck& bottleneck);

}  // namespace rookery
