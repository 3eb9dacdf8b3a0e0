// Pools, tasks and small made-up models for the tests of planning.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "clusterize/planner/planner.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/kernels/choose.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/tied_model.hpp"
#include "trainer/settings/batch_sizes.hpp"

namespace rookery {

inline Json node_json(int port, double ram = 8, double bandwidth = 10) {
  return {{"IP", fmt::format("host{0}:{0}", port)}, {"benchmarks", {{"ram", ram}, {"bandwidth", bandwidth}}}};
}

// `count` machines that differ in nothing but their names.
inline Json equal_nodes(int count, double ram = 8) {
  Json pool = Json::object();
  for (int i = 0; i < count; ++i) pool[std::to_string(i)] = node_json(8080 + i, ram);
  return pool;
}

inline NodePool pool_of(const Json& document) {
  return NodePool::from_json(document, "node_configs.json");
}

inline SearchOptions for_throughput() {
  return {.objective = Objective::kThroughput, .min_nodes = 1};
}

inline TrainingTask cnn_task(const TrainingSettings& settings = TrainingSettings()) {
  TrainingTask task{.graph = zoo_model(settings.model), .settings = settings, .data = {1078, 719}};
  add_loss(task.graph, settings.loss);
  task.kernels = choose_kernels(task.graph, micro_batch_sizes(settings, settings.batch_size).front());
  return task;
}

inline TrainingTask tied_task() {
  TrainingTask task{.graph = tied_model({1, 8, 8}, 10), .settings = {}, .data = {1078, 719}};
  add_loss(task.graph, task.settings.loss);
  task.kernels =
      choose_kernels(task.graph, micro_batch_sizes(task.settings, task.settings.batch_size).front());
  return task;
}

// The message of the ConfigError or DataError that `action` must throw.
template <typename Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  } catch (const DataError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

inline Planned plan(const Json& pool, const TrainingTask& task, const SearchOptions& options = {}) {
  return make_plan(task, pool_of(pool), options);
}

}  // namespace rookery
