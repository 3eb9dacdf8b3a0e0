// Decides how the clusters of a plan average where train.json leaves that to the planner (`"averaging":
// "auto"`).
#pragma once

#include "clusterize/costs/planned.hpp"
#include "clusterize/costs/training_task.hpp"
#include "clusterize/pool/node_pool.hpp"
#include "clusterize/search/search.hpp"

namespace rookery {

// The plan of a task, whose settings then have the mode that was chosen; with others it is make_plan().
// Gradients of every step, which train as one node does, unless that takes as long as training or longer:
// then parameters, as often as can be with a tenth of the time, and once an epoch at least. The plan with
// each is searched for, because rare rounds allow clusters that are far from each other.
Planned plan_with_averaging(TrainingTask& task, const NodePool& pool, const SearchOptions& options);

}  // namespace rookery
