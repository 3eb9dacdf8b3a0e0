#include "clusterize/plan/cluster_plan.hpp"

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/plan/prediction_json.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {
namespace {

OrderedJson to_json(const PlannedStage& stage, int staleness, int index, int stages) {
  OrderedJson all = {{"node", stage.node},
                     {"address", stage.address},
                     {"threads", stage.threads},
                     {"stage", index},
                     {"role", role_of(index, stages)},
                     {"ops", stage.ops},
                     {"parameters", stage.parameters},
                     {"recompute", stage.recompute},
                     {"in_flight", stage.in_flight},
                     {"staleness", staleness},
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
          {"activations", link.transport.activations},
          {"gradients", link.transport.gradients},
          {"activation_bytes", link.activation_bytes},
          {"gradient_bytes", link.gradient_bytes},
          {"activation_ms", link.activation_ms},
          {"gradient_ms", link.gradient_ms}};
}

OrderedJson to_json(const PlannedCluster& cluster, const ClusterPlan& plan) {
  OrderedJson stages = OrderedJson::array();
  const int count = static_cast<int>(cluster.stages.size());
  for (int index = 0; index < count; ++index) {
    const PlannedStage& stage = cluster.stages[index];
    const int behind = updates_behind(plan.schedule, stage.in_flight, plan.micro_batches);
    stages.push_back(to_json(stage, behind, index, count));
  }
  OrderedJson links = OrderedJson::array();
  for (const PlannedLink& link : cluster.links) links.push_back(to_json(link));
  return {{"id", cluster.id},
          {"share", cluster.share},
          {"predicted_step_ms", cluster.predicted_step_ms},
          {"round_trip_ms", cluster.round_trip_ms},
          {"period_ms", cluster.period_ms},
          {"update_ms", cluster.update_ms},
          {"exchange_ms", cluster.exchange_ms},
          {"simulated_step_ms", cluster.simulated_step_ms},
          {"share_step_ms", cluster.share_step_ms},
          {"stages", stages},
          {"links", links}};
}

OrderedJson to_json(const Ring& ring, const ClusterPlan& plan) {
  OrderedJson nodes = OrderedJson::array();
  for (std::size_t c = 0; c < ring.stages.size(); ++c)
    nodes.push_back(plan.clusters[c].stages[ring.stages[c]].node);
  OrderedJson all{{"id", ring.id},
                  {"bytes", ring.bytes},
                  {"stages", ring.stages},
                  {"nodes", nodes},
                  {"parameters", ring.parameters}};
  if (ring.under_way) all["under_way"] = *ring.under_way;
  return all;
}

OrderedJson to_json(const AveragingSettings& averaging) {
  TrainingSettings settings;
  settings.averaging = averaging;
  return to_json(settings).at("averaging");
}

OrderedJson to_json(const AveragingCandidate& candidate) {
  return {{"averaging", to_json(candidate.averaging)},
          {"clusters", candidate.clusters},
          {"samples_per_second", candidate.samples_per_second},
          {"step_ms", candidate.step_ms},
          {"averaging_ms", candidate.averaging_ms},
          {"round_ms", candidate.round_ms}};
}

OrderedJson to_json(const AveragingChoice& choice) {
  OrderedJson all = {{"reason", choice.reason}, {"gradients", to_json(choice.gradients)}};
  if (choice.parameters) all["parameters"] = to_json(*choice.parameters);
  return all;
}

OrderedJson to_json(const ScheduleCandidate& candidate) {
  return {{"micro_batches", candidate.micro_batches},
          {"schedule", candidate.schedule},
          {"clusters", candidate.clusters},
          {"step_ms", candidate.step_ms},
          {"samples_per_second", candidate.samples_per_second}};
}

OrderedJson to_json(const ScheduleChoice& choice) {
  OrderedJson others = OrderedJson::array();
  for (const ScheduleCandidate& candidate : choice.others) others.push_back(to_json(candidate));
  return {{"chosen", to_json(choice.chosen)},
          {"others", others},
          {"tried", choice.tried},
          {"too_large", choice.too_large}};
}

}  // namespace

OrderedJson to_json(const ClusterPlan& plan) {
  OrderedJson clusters = OrderedJson::array();
  for (const PlannedCluster& cluster : plan.clusters) clusters.push_back(to_json(cluster, plan));
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
                     {"averaging", to_json(plan.averaging)},
                     {"predicted_averaging_ms", plan.predicted_averaging_ms},
                     {"predicted_round_ms", plan.predicted_round_ms},
                     {"rounds_per_step", plan.rounds_per_step},
                     {"clusters", clusters},
                     {"rings", rings},
                     {"left_out", left_out}};
  for (const auto& [nodes, count] : plan.connections)
    all["connections"].push_back({{"between", {nodes.first, nodes.second}}, {"connections", count}});
  if (plan.averaging_choice) all["averaging_choice"] = to_json(*plan.averaging_choice);
  if (plan.schedule_choice) all["schedule_choice"] = to_json(*plan.schedule_choice);
  if (plan.resume) all["resume"] = to_json(*plan.resume);
  return all;
}

std::pair<std::string, std::string> node_pair(const std::string& a, const std::string& b) {
  return std::minmax(a, b);
}

int connections_between(const ClusterPlan& plan, const std::string& a, const std::string& b) {
  const auto known = plan.connections.find(node_pair(a, b));
  return known == plan.connections.end() ? 1 : known->second;
}

ClusterShares shares_of(const ClusterPlan& plan, int cluster) {
  ClusterShares shares{.cluster = cluster, .samples = {}};
  for (const PlannedCluster& planned : plan.clusters) shares.samples.push_back(planned.share);
  return shares;
}

}  // namespace rookery
