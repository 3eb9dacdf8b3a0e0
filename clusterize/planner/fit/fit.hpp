// Finds the clusters of a plan by estimates of memory, then measures what the stages take, and searches again
// by that where it is more.
#pragma once

#include <memory>
#include <vector>

#include "clusterize/costs/throughput_model.hpp"
#include "clusterize/costs/training_task.hpp"
#include "clusterize/genetic/grouping.hpp"
#include "clusterize/search/search.hpp"

namespace rookery {

// The costs of the task, by its profile where it has one.
ModelCosts model_costs(const TrainingTask& task, const NodePool& pool);

struct Fit {
  std::unique_ptr<NodePool> pool;          // where it is no other's (chunks.hpp)
  std::unique_ptr<ModelCosts> costs;       // these are those that the model refers to
  std::unique_ptr<ThroughputModel> model;  // of the pool, which outlives it
  Grouping grouping;
  Throughput throughput;  // refined (cut_refinement.hpp)
  // That of the costs, with what is known of the stages that were found.
  std::shared_ptr<const MemoryModel> memory;
};

// The stages of clusters, and the nodes that have them.
struct PlacedStage {
  StageRange range;
  int node = 0;
};
std::vector<PlacedStage> placed_stages(const ModelCosts& costs, const Clusters& clusters,
                                       const std::vector<const StagePartition*>& partitions,
                                       const NodePool& pool);

// ConfigError when the model does not fit the pool's memory.
Fit find_fit(const NodePool& pool, const ModelCosts& costs, const SearchOptions& options);

}  // namespace rookery
