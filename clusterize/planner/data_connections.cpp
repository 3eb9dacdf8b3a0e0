#include "clusterize/planner/data_connections.hpp"

#include <algorithm>
#include <cmath>

#include "clusterize/plan/node_metadata.hpp"
#include "trainer/transfers.hpp"

namespace rookery {
namespace {

// What Linux lets a connection have under way, as it is set up (net.ipv4.tcp_rmem, tcp_wmem: 6 and 4 MB at
// most, of which half is payload).
constexpr double kUnderWayBytes = 2 << 20;

// What a stage may hold of messages that it cannot put together yet.
std::int64_t held_bytes(const TrainingTask& task, const Planned& planned, std::size_t cluster,
                        const Stage& stage) {
  const PlannedCluster& own = planned.plan.clusters[cluster];
  TrainingSettings settings = task.settings;
  settings.schedule.planned.clear();
  for (const PlannedStage& each : own.stages) settings.schedule.planned.push_back(each.in_flight);
  const std::vector<std::int64_t> sizes = micro_batch_sizes(settings, settings.batch_size);
  std::int64_t bytes = 0;
  for (const Transfer& transfer : transfers(stage, sizes.front(), settings.schedule,
                                            static_cast<int>(sizes.size()), encoding_of(task, own.links))) {
    const int connections =
        connections_between(planned.plan, own.stages[stage.index].node, own.stages[transfer.peer].node);
    if (!transfer.is_sent && connections > 1) bytes += transfer.under_way * transfer.bytes;
  }
  return bytes;
}

// Fewer connections take less memory, so that this ends.
void leave_one_where_memory_is_short(const TrainingTask& task, const NodePool& pool, Planned& planned) {
  ClusterPlan& plan = planned.plan;
  const auto is_short = [&](std::size_t c, const Stage& stage) {
    const std::int64_t bytes =
        plan.clusters[c].stages[stage.index].prediction.total_bytes() + held_bytes(task, planned, c, stage);
    return static_cast<double>(bytes) > 1e9 * pool.node(planned.members[c][stage.index]).ram_gb;
  };
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (std::size_t c = 0; c < planned.members.size(); ++c) {
      const std::vector<PlannedStage>& stages = plan.clusters[c].stages;
      for (const Stage& stage : planned.stages[c]) {
        if (!is_short(c, stage)) continue;
        for (const PlannedStage& other : stages)
          has_changed |= plan.connections.erase(node_pair(stages[stage.index].node, other.node)) > 0;
      }
    }
  }
}

}  // namespace

int data_connections(const LinkSpeed& link) {
  const double bytes_per_ms = 125 * link.bandwidth_mbps;
  const double needed = std::ceil(bytes_per_ms * 2 * link.latency_ms / kUnderWayBytes);
  return static_cast<int>(std::clamp(needed, 1.0, double{kMostDataConnections}));
}

void add_data_connections(const TrainingTask& task, const NodePool& pool, Planned& planned) {
  ClusterPlan& plan = planned.plan;
  const std::size_t clusters = planned.members.size();
  const auto add = [&](int a, int b) {
    if (a == b) return;
    const int connections = data_connections(pool.link(a, b));
    if (connections == 1) return;
    plan.connections[node_pair("node_" + pool.node(a).id, "node_" + pool.node(b).id)] = connections;
  };
  const auto add_neighbours = [&](const auto& stage_in) {
    for (std::size_t c = 0; c < clusters; ++c) {
      const std::size_t next = (c + 1) % clusters;
      add(planned.members[c][stage_in(c)], planned.members[next][stage_in(next)]);
    }
  };
  for (const std::vector<int>& members : planned.members) {
    for (const int a : members)
      for (const int b : members) add(a, b);
  }
  add_neighbours([](std::size_t) { return 0; });
  for (const Ring& ring : plan.rings) add_neighbours([&](std::size_t c) { return ring.stages[c]; });
  if (plan.connections.empty()) return;
  leave_one_where_memory_is_short(task, pool, planned);
  for (std::size_t c = 0; c < clusters; ++c) {
    for (const Stage& stage : planned.stages[c])
      plan.clusters[c].stages[stage.index].prediction.transport_bytes += held_bytes(task, planned, c, stage);
  }
}

}  // namespace rookery
