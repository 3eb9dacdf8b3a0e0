// Plans by schedules that give each machine several stages (trainer/schedule/machine_order.hpp): clusters are
// searched as if each machine had one, and then cut into as many as there are, whose machine each stage's
// place tells.
#pragma once

#include "clusterize/planner/fit/fit.hpp"

namespace rookery {

// The costs by which clusters are searched: of the schedule that is most alike with one stage on a machine.
ModelCosts searched_costs(ModelCosts costs);

// The clusters of `searched`, each stage on a node of its own (NodePool::divided()), cut anew; a machine's
// memory is divided among its nodes as their stages need it. `costs`: of the task. ConfigError where the
// stages of a machine do not fit its memory, or none can connect to them.
Fit with_chunks(const Fit& searched, const ModelCosts& costs);

}  // namespace rookery
