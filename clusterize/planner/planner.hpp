// Makes a plan from a model and a pool: search, cut, rings, predictions.
#pragma once

#include "clusterize/costs/planned.hpp"
#include "clusterize/costs/training_task.hpp"
#include "clusterize/planner/fit/fit.hpp"
#include "clusterize/pool/node_pool.hpp"
#include "clusterize/search/search.hpp"

namespace rookery {

// A function of its arguments alone. ConfigError when the model does not fit the pool's memory. `costs`:
// model_costs() of the same, or Planned::costs of an earlier plan, with which less memory is measured.
Planned make_plan(const TrainingTask& task, const NodePool& pool, const ModelCosts& costs,
                  const SearchOptions& options);
Planned make_plan(const TrainingTask& task, const NodePool& pool, const SearchOptions& options);

}  // namespace rookery
