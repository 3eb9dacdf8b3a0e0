#include "clusterize/planner/fit/fit.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "clusterize/genetic/time_limit.hpp"
#include "clusterize/order/cut_refinement.hpp"
#include "clusterize/search/find_clusters.hpp"
#include "models/base/error.hpp"
#include "trainer/schedule/machine_order.hpp"

namespace rookery {
namespace {

// Fewer for many nodes, so that a plan is made in a user's time; but several for each machine that the
// model's state needs.
int most_segments(const TrainingTask& task, const NodePool& pool) {
  constexpr double kForAllNodes = 1200;
  constexpr double kLeast = 24;
  constexpr double kPerMachine = 6;
  double state = 0;  // weights, gradients and two numbers of an optimizer
  for (const ValueId id : task.graph.parameters())
    state += 4 * static_cast<double>(task.graph.value(id).type.bytes());
  double smallest = std::numeric_limits<double>::infinity();
  for (const PoolNode& node : pool.nodes()) smallest = std::min(smallest, 1e9 * node.ram_gb);
  const int chunks = placement_on(task.settings.schedule, 2).chunks;
  const double wanted = chunks * std::max({kLeast, kForAllNodes / static_cast<double>(pool.nodes().size()),
                                           kPerMachine * state / smallest});
  return static_cast<int>(std::min<double>(wanted, kMostSegments));
}

}  // namespace

ModelCosts model_costs(const TrainingTask& task, const NodePool& pool) {
  const auto most_clusters = static_cast<int>(pool.nodes().size());
  return model_costs(task.graph, task.settings, task.data, task.kernels,
                     task.profile ? &*task.profile : nullptr, most_segments(task, pool), pool.all_threads(),
                     most_clusters);
}

std::vector<PlacedStage> placed_stages(const ModelCosts& costs, const Clusters& clusters,
                                       const std::vector<const StagePartition*>& partitions,
                                       const NodePool& pool) {
  std::vector<PlacedStage> placed;
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    const StagePartition& partition = *partitions[c];
    const auto stages = static_cast<int>(clusters[c].size());
    for (int stage = 0; stage < stages; ++stage) {
      const auto at = static_cast<std::size_t>(stage);
      placed.push_back({.range = {.first = partition.begins[at],
                                  .last = stage + 1 < stages ? partition.begins[at + 1] : costs.count(),
                                  .slots = costs.slots(stage, stages),
                                  .recompute = partition.recompute[at],
                                  .threads = pool.threads(clusters[c][at])},
                        .node = clusters[c][at]});
    }
  }
  return placed;
}

Fit find_fit(const NodePool& pool, const ModelCosts& known_costs, const SearchOptions& options) {
  std::set<int> pinned;
  for (const auto& [node, pin] : options.pins) pinned.insert(node);
  const TimeLimit limit(options.seconds);
  std::shared_ptr<const MemoryModel> memory = known_costs.memory;
  for (;;) {
    Fit fit{.costs = std::make_unique<ModelCosts>(known_costs)};
    fit.costs->memory = memory;
    fit.model = std::make_unique<ThroughputModel>(pool, *fit.costs, pinned);
    SearchOptions within = options;
    within.seconds = limit.left();
    try {
      fit.grouping = find_clusters(*fit.model, within);
    } catch (const ConfigError&) {
      memory = memory->exact();
      if (memory == nullptr) throw;
      continue;  // estimates are rather too high
    }
    fit.throughput = refined_throughput(*fit.model, fit.grouping.clusters);
    fit.memory = memory;
    if (memory->is_exact()) return fit;

    const std::vector<PlacedStage> placed =
        placed_stages(*fit.costs, fit.grouping.clusters, fit.throughput.cuts, pool);
    std::vector<StageRange> ranges;
    for (const PlacedStage& stage : placed) ranges.push_back(stage.range);
    fit.memory = memory = memory->refine(ranges);
    const auto holds = [&](const PlacedStage& stage) {
      return static_cast<double>(memory->bytes(stage.range)) <= fit.model->ram_bytes(stage.node);
    };
    if (std::ranges::all_of(placed, holds)) return fit;
  }
}

}  // namespace rookery
