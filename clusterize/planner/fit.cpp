#include "clusterize/planner/fit.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "clusterize/genetic/time_limit.hpp"
#include "clusterize/order/cut_refinement.hpp"
#include "clusterize/search/find_clusters.hpp"
#include "models/base/error.hpp"

namespace rookery {
namespace {

// Estimates no more: dear, because a stage is compiled for every range that is asked for.
void measure_memory(ModelCosts& costs) {
  const auto measured = std::move(costs.measured_memory);
  costs.measured_memory = nullptr;
  costs.memory = [measured](int first, int last, int slots) { return measured(first, last, slots, false); };
  costs.recomputed_memory = [measured](int first, int last, int slots) {
    return measured(first, last, slots, true);
  };
}

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
  const double wanted = std::max(
      {kLeast, kForAllNodes / static_cast<double>(pool.nodes().size()), kPerMachine * state / smallest});
  return static_cast<int>(std::min<double>(wanted, kMostSegments));
}

// Do the stages fit their machines by what they take in truth? Those that the costs took to be smaller are
// known then.
bool fits(const CostModel& model, const Clusters& clusters, const std::vector<const StagePartition*>& cuts) {
  const ModelCosts& costs = model.costs();
  if (!costs.measured_memory) return true;
  bool all = true;
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    const auto stages = static_cast<int>(clusters[c].size());
    for (int stage = 0; stage < stages; ++stage) {
      const auto at = static_cast<std::size_t>(stage);
      const int first = cuts[c]->begins[at];
      const int last = stage + 1 < stages ? cuts[c]->begins[at + 1] : costs.count();
      const int slots = costs.slots(stage, stages);
      const std::int64_t bytes = costs.measured_memory(first, last, slots, cuts[c]->recompute[at]);
      all = all && static_cast<double>(bytes) <= model.ram_bytes(clusters[c][at]);
    }
  }
  return all;
}

}  // namespace

ModelCosts model_costs(const TrainingTask& task, const NodePool& pool) {
  return model_costs(task.graph, task.settings, task.data, task.kernels,
                     task.profile ? &*task.profile : nullptr, most_segments(task, pool));
}

Fit find_fit(const NodePool& pool, const ModelCosts& known_costs, const SearchOptions& options) {
  Fit fit{.costs = std::make_unique<ModelCosts>(known_costs)};
  std::set<int> pinned;
  for (const auto& [node, pin] : options.pins) pinned.insert(node);
  const TimeLimit limit(options.seconds);
  const auto find = [&] {
    fit.model = std::make_unique<CostModel>(pool, *fit.costs, pinned);
    SearchOptions within = options;
    within.seconds = limit.left();
    return find_clusters(*fit.model, within);
  };
  do {
    try {
      fit.grouping = find();
    } catch (const ConfigError&) {
      if (!fit.costs->measured_memory) throw;
      // By estimates, which are rather too high, nothing fits.
      measure_memory(*fit.costs);
      fit.grouping = find();
    }
    fit.throughput = refined_throughput(*fit.model, fit.grouping.clusters);
  } while (!fits(*fit.model, fit.grouping.clusters, fit.throughput.cuts));
  return fit;
}

}  // namespace rookery
