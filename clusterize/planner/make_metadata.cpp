#include "clusterize/planner/make_metadata.hpp"

#include "trainer/averaging/fragments.hpp"

namespace rookery {
namespace {

// None where all of the model is in one.
std::map<std::string, int> fragments_of_stage(const TrainingTask& task, const Stage& stage) {
  std::map<std::string, int> fragments;
  const int count = task.settings.averaging.fragments;
  if (count == 1) return fragments;
  const std::map<std::string, int> of_model = fragments_of(task.graph, count);
  for (const ValueId id : stage.owned_averaged_values()) {
    const std::string& name = stage.graph.value(id).name;
    fragments.emplace(name, of_model.at(name));
  }
  return fragments;
}

}  // namespace

NodeMetadata make_metadata(const TrainingTask& task, const Planned& planned, int cluster, int stage) {
  const ClusterPlan& plan = planned.plan;
  const auto clusters = static_cast<int>(plan.clusters.size());
  const PlannedCluster& own = plan.clusters[cluster];
  const PlannedStage& self = own.stages[stage];
  const auto peer = [&](int of_cluster, int of_stage) {
    const PlannedStage& other = plan.clusters[of_cluster].stages[of_stage];
    return PeerInfo{other.node, other.address, of_stage, other.reachable,
                    connections_between(plan, self.node, other.node)};
  };
  const Stage& part = planned.stages[cluster][stage];

  NodeMetadata metadata{.node = self.node,
                        .address = self.address,
                        .threads = self.threads,
                        .threads_of_host = self.threads_of_host,
                        .plan_id = plan.plan_id,
                        .cluster = cluster,
                        .clusters = clusters,
                        .stage = stage,
                        .stages = part.count,
                        .inputs = part.inputs,
                        .outputs = part.outputs,
                        .shared = part.shared,
                        .model_inputs = input_names(task.graph),
                        .recompute = self.recompute,
                        .shares = shares_of(plan, cluster),
                        .prediction = self.prediction,
                        .predicted_step_ms = own.share_step_ms,
                        .settings = task.settings,
                        .data = task.data,
                        .resume = task.resume};
  metadata.settings.schedule.updates_ahead = updates_ahead(task, plan);
  for (int i = 0; i < part.count; ++i) {
    metadata.members.push_back(peer(cluster, i));
    metadata.settings.schedule.planned.push_back(own.stages[i].in_flight);
  }
  if (is_auto(task.settings.transport)) {
    for (const PlannedLink& link : own.links)
      metadata.transport.push_back({link.from, link.to, link.transport});
  }
  for (const Ring& ring : plan.rings) {
    if (ring.stages[cluster] != stage) continue;
    RingMembership& own_ring = metadata.rings[ring.id];
    own_ring = {.first_parameter = ring.parameters.front(), .peers = {}, .under_way = ring.under_way};
    for (int c = 0; c < clusters; ++c) own_ring.peers.push_back(peer(c, ring.stages[c]));
  }
  if (clusters > 1) {
    for (int c = 0; c < clusters; ++c) metadata.roots.push_back(peer(c, 0));
    metadata.predicted_round_ms = plan.predicted_round_ms;
    metadata.predicted_averaging_ms = plan.predicted_averaging_ms;
    metadata.ring_count = static_cast<int>(plan.rings.size());
    metadata.fragments = fragments_of_stage(task, part);
  }
  for (const auto& entry : task.kernels) {
    if (part.graph.has_op(chosen_op(task.graph, entry.first))) metadata.kernels.insert(entry);
  }
  return metadata;
}

}  // namespace rookery
