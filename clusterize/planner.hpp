// From a model and a pool to a plan: search, cut, rings, predictions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "clusterize/op_profile.hpp"
#include "clusterize/plan/cluster_plan.hpp"
#include "clusterize/plan/node_pool.hpp"
#include "clusterize/search.hpp"
#include "models/io/onnx_module.hpp"

namespace rookery {

// What is to be trained.
struct TrainingTask {
  Graph graph;  // of the whole model, loss included
  TrainingSettings settings;
  DataSizes data;
  KernelChoice kernels;
  // weights_digest() of what training starts from, where that does not follow from the seed.
  std::string weights;
  StateDict model_weights = {};                  // that the model's file has
  std::optional<ModuleDescription> module = {};  // that it says it is of
  std::vector<std::string> warnings = {};        // of its file
  StateDict model_extras = {};                   // of the module's state dict, not of the graph
  std::optional<OpProfile> profile = {};         // measured times of this graph's ops, where there are any
};

// 16 hex digits, of names and elements.
std::string weights_digest(const StateDict& state);

struct Planned {
  ClusterPlan plan;
  std::vector<std::vector<Stage>> stages;  // by cluster and stage
  Clusters members;                        // nodes of the pool, likewise
  std::vector<InnerCut> cuts;              // by cluster
};

// What the task costs, by its profile where it has one.
ModelCosts model_costs(const TrainingTask& task, const NodePool& pool);

// A function of its arguments alone. ConfigError when the model does not fit the pool's memory. `costs`:
// model_costs() of the same; whoever plans again with them, or a copy, need not measure memory again.
Planned make_plan(const TrainingTask& task, const NodePool& pool, const ModelCosts& costs,
                  const SearchOptions& options);
Planned make_plan(const TrainingTask& task, const NodePool& pool, const SearchOptions& options);

// What a provider needs to know.
NodeMetadata make_metadata(const TrainingTask& task, const Planned& planned, int cluster, int stage);

}  // namespace rookery
