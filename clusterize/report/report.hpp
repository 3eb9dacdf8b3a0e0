// The report is what clusterize tells the person in front of it.
#pragma once

#include <string>

#include "clusterize/costs/planned.hpp"
#include "clusterize/costs/training_task.hpp"

namespace rookery {

// The plan as text: what each node does, then a table of all stages with predictions.
std::string describe_plan(const TrainingTask& task, const Planned& planned);

}  // namespace rookery
