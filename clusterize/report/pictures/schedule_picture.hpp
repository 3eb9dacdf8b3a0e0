// One simulated step drawn: what every node computes and sends when; and beside it a measured one.
#pragma once

#include <string>
#include <vector>

#include "clusterize/costs/planned.hpp"
#include "clusterize/costs/training_task.hpp"
#include "clusterize/pool/node_pool.hpp"
#include "clusterize/report/bottleneck.hpp"
#include "clusterize/report/pictures/measured_step.hpp"

namespace rookery {

// Larger plans show the slowest clusters only, and say so.
constexpr std::size_t kMostRowsDrawn = 48;

// An SVG file, of a step of a full batch; a function of its arguments alone. `pool` is the plan's.
// `measured`: the nodes of a cluster follow their simulated rows as they were measured; none where it has no
// rows.
std::string schedule_picture(const TrainingTask& task, const NodePool& pool, const Planned& planned,
                             const Bottleneck& bottleneck, const MeasuredStep& measured = {});
// How many steps it draws: one, or async as many as fill the pipeline, run full and empty it.
std::int64_t steps_to_draw(const TrainingTask& task, const Planned& planned);

}  // namespace rookery
