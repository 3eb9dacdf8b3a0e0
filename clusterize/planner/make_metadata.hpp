// Makes of a plan what each of its providers is told.
#pragma once

#include "clusterize/costs/planned.hpp"
#include "clusterize/costs/training_task.hpp"
#include "clusterize/plan/node_metadata.hpp"

namespace rookery {

// Without a token, which write_plan() draws.
NodeMetadata make_metadata(const TrainingTask& task, const Planned& planned, int cluster, int stage);

}  // namespace rookery
