#include "clusterize/planner/make_metadata.hpp"

namespace rookery {

NodeMetadata make_metadata(const TrainingTask& task, const Planned& planned, int cluster, int stage) {
  const ClusterPlan& plan = planned.plan;
  const auto peer = [&](int of_cluster, int of_stage) {
    const PlannedStage& other =
        plan.clusters[static_cast<std::size_t>(of_cluster)].stages[static_cast<std::size_t>(of_stage)];
    return PeerInfo{other.node, other.address, of_stage, other.reachable};
  };
  const auto clusters = static_cast<int>(plan.clusters.size());
  const PlannedCluster& own = plan.clusters[static_cast<std::size_t>(cluster)];
  const PlannedStage& self = own.stages[static_cast<std::size_t>(stage)];
  const Stage& part = planned.stages[static_cast<std::size_t>(cluster)][static_cast<std::size_t>(stage)];

  NodeMetadata metadata{.node = self.node,
                        .address = self.address,
                        .plan_id = plan.plan_id,
                        .cluster = cluster,
                        .clusters = clusters,
                        .stage = stage,
                        .stages = part.count,
                        .inputs = part.inputs,
                        .outputs = part.outputs,
                        .shared = part.shared,
                        .recompute = self.recompute,
                        .prediction = self.prediction,
                        .predicted_step_ms = own.simulated_step_ms,
                        .settings = task.settings,
                        .data = task.data,
                        .resume = task.resume};
  for (int i = 0; i < part.count; ++i) metadata.members.push_back(peer(cluster, i));
  for (const Ring& ring : plan.rings) {
    if (ring.stages[static_cast<std::size_t>(cluster)] != stage) continue;
    metadata.rings[ring.id] = ring.parameters.front();
    for (int c = 0; c < clusters; ++c)
      metadata.ring_peers[ring.id].push_back(peer(c, ring.stages[static_cast<std::size_t>(c)]));
  }
  for (const auto& entry : task.kernels) {
    if (part.graph.has_op(chosen_op(task.graph, entry.first))) metadata.kernels.insert(entry);
  }
  return metadata;
}

}  // namespace rookery
