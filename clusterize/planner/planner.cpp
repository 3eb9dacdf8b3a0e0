#include "clusterize/planner/planner.hpp"

#include <algorithm>

#include "clusterize/order/rings.hpp"
#include "clusterize/planner/left_out.hpp"
#include "clusterize/planner/plan_id.hpp"
#include "clusterize/planner/predictions.hpp"
#include "clusterize/simulation/simulation.hpp"

namespace rookery {
namespace {

// First op of every stage.
std::vector<OpId> op_begins(const ModelCosts& costs, const StagePartition& partition) {
  std::vector<OpId> begins;
  for (const int segment : partition.begins)
    begins.push_back(costs.segments[static_cast<std::size_t>(segment)].begin);
  return begins;
}

// By cluster: stages and their predictions.
void add_clusters(const TrainingTask& task, const Fit& fit, Planned& planned) {
  planned.members = fit.grouping.clusters;
  for (std::size_t c = 0; c < planned.members.size(); ++c) {
    const StagePartition& partition = *fit.throughput.cuts[c];
    planned.cuts.push_back(partition);
    planned.stages.push_back(cut(task.graph, op_begins(*fit.costs, partition)));
    planned.plan.clusters.push_back(
        predicted_cluster(task, *fit.model, planned.members[c], partition, planned.stages.back()));
    planned.plan.clusters.back().id = static_cast<int>(c);
  }
}

// The step as its schedule runs, with the averaging that the search predicts.
void add_simulated(const TrainingTask& task, const NodePool& pool, double averaging_seconds,
                   Planned& planned) {
  ClusterPlan& plan = planned.plan;
  double longest = averaging_seconds;
  for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
    const double step = simulated_step_seconds(task, pool, planned, c);
    plan.clusters[c].simulated_step_ms = 1e3 * step;
    longest = std::max(longest, step + averaging_seconds);
  }
  plan.simulated_samples_per_second =
      static_cast<double>(plan.batch_size) * static_cast<double>(plan.clusters.size()) / longest;
}

void add_left_out(const NodePool& pool, const Fit& fit, const SearchOptions& options, ClusterPlan& plan) {
  const std::vector<int>& left_out = fit.grouping.left_out;
  const std::vector<std::string> reasons =
      reasons_to_leave_out(*fit.model, options, fit.grouping.clusters, fit.throughput, left_out);
  for (std::size_t i = 0; i < reasons.size(); ++i)
    plan.left_out.push_back({"node_" + pool.node(left_out[i]).id, reasons[i]});
}

}  // namespace

Planned make_plan(const TrainingTask& task, const NodePool& pool, const SearchOptions& options) {
  return make_plan(task, pool, model_costs(task, pool), options);
}

Planned make_plan(const TrainingTask& task, const NodePool& pool, const ModelCosts& costs,
                  const SearchOptions& options) {
  const Fit fit = find_fit(pool, costs, options);
  Planned planned;
  ClusterPlan& plan = planned.plan;
  plan.objective = name_of(options.objective);
  plan.model = task.settings.model;
  plan.batch_size = task.settings.batch_size;
  plan.micro_batches = costs.micro_batches;
  plan.schedule = task.settings.schedule;
  plan.seed = options.seed;
  plan.resume = task.resume;
  add_clusters(task, fit, planned);
  plan.rings = make_rings(task.graph, planned.stages);
  add_left_out(pool, fit, options, plan);
  plan.predicted_averaging_ms = 1e3 * fit.throughput.averaging_seconds;
  plan.predicted_samples_per_second = fit.throughput.samples_per_second;
  plan.bound_samples_per_second = fit.model->bound_samples_per_second();
  add_simulated(task, pool, fit.throughput.averaging_seconds, planned);
  plan.plan_id = plan_id_of(task, pool, plan);
  planned.costs = costs;
  planned.costs.memory = fit.memory;
  return planned;
}

}  // namespace rookery
