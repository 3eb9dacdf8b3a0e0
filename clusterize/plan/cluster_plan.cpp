#include "clusterize/plan/cluster_plan.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/plan/prediction_json.hpp"

namespace rookery {
namespace {

OrderedJson to_json(const PlannedStage& stage, const ScheduleSettings& schedule, int index, int stages) {
  OrderedJson all = {{"node", stage.node},
                     {"address", stage.address},
                     {"stage", index},
                     {"role", role_of(index, stages)},
                     {"ops", stage.ops},
                     {"parameters", stage.parameters},
                     {"recompute", stage.recompute},
                     {"staleness", staleness(schedule, index, stages)},
                     {"forward_flops", stage.forward_flops},
                     {"backward_flops", stage.backward_flops},
                     {"prediction", to_json(stage.prediction)}};
  if (!stage.reachable) all["reachable"] = false;
  return all;
}

OrderedJson to_json(const PlannedLink& link) {
  return {{"from", link.from},
          {"to", link.to},
          {"latency_ms", link.latency_ms},
          {"bandwidth_mbps", link.bandwidth_mbps},
          {"activation_bytes", link.activation_bytes},
          {"gradient_bytes", link.gradient_bytes},
          {"activation_ms", link.activation_ms},
          {"gradient_ms", link.gradient_ms}};
}

OrderedJson to_json(const PlannedCluster& cluster, const ScheduleSettings& schedule) {
  OrderedJson stages = OrderedJson::array();
  const int count = static_cast<int>(cluster.stages.size());
  for (int stage = 0; stage < count; ++stage)
    stages.push_back(to_json(cluster.stages[static_cast<std::size_t>(stage)], schedule, stage, count));
  OrderedJson links = OrderedJson::array();
  for (const PlannedLink& link : cluster.links) links.push_back(to_json(link));
  return {{"id", cluster.id},
          {"predicted_step_ms", cluster.predicted_step_ms},
          {"round_trip_ms", cluster.round_trip_ms},
          {"period_ms", cluster.period_ms},
          {"update_ms", cluster.update_ms},
          {"exchange_ms", cluster.exchange_ms},
          {"simulated_step_ms", cluster.simulated_step_ms},
          {"stages", stages},
          {"links", links}};
}

OrderedJson to_json(const Ring& ring, const ClusterPlan& plan) {
  OrderedJson nodes = OrderedJson::array();
  for (std::size_t c = 0; c < ring.stages.size(); ++c)
    nodes.push_back(plan.clusters[c].stages[static_cast<std::size_t>(ring.stages[c])].node);
  return {{"id", ring.id},
          {"bytes", ring.bytes},
          {"stages", ring.stages},
          {"nodes", nodes},
          {"parameters", ring.parameters}};
}

}  // namespace

OrderedJson to_json(const ClusterPlan& plan) {
  OrderedJson clusters = OrderedJson::array();
  for (const PlannedCluster& cluster : plan.clusters) clusters.push_back(to_json(cluster, plan.schedule));
  OrderedJson rings = OrderedJson::array();
  for (const Ring& ring : plan.rings) rings.push_back(to_json(ring, plan));
  OrderedJson left_out = OrderedJson::array();
  for (const LeftOutNode& node : plan.left_out)
    left_out.push_back({{"node", node.node}, {"reason", node.reason}});
  const double share = plan.predicted_samples_per_second / plan.bound_samples_per_second;
  OrderedJson all = {{"format", "rookery.plan"},
                     {"version", 2},
                     {"plan_id", plan.plan_id},
                     {"objective", plan.objective},
                     {"model", plan.model},
                     {"batch_size", plan.batch_size},
                     {"micro_batches", plan.micro_batches},
                     {"schedule", plan.schedule.name},
                     {"seed", plan.seed},
                     {"predicted_samples_per_second", plan.predicted_samples_per_second},
                     {"simulated_samples_per_second", plan.simulated_samples_per_second},
                     {"bound_samples_per_second", plan.bound_samples_per_second},
                     {"share_of_bound", share},
                     {"predicted_averaging_ms", plan.predicted_averaging_ms},
                     {"clusters", clusters},
                     {"rings", rings},
                     {"left_out", left_out}};
  if (plan.resume) all["resume"] = to_json(*plan.resume);
  return all;
}

std::string training_problem(std::size_t clusters) {
  if (clusters == 1) return {};
  return fmt::format(
      "this plan cannot be trained yet: it has {} clusters, and this version of Rookery trains plans of one "
      "cluster only; clusterize --clusters 1 makes one",
      clusters);
}

}  // namespace rookery
