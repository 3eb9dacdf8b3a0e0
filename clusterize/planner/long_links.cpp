#include "clusterize/planner/long_links.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "clusterize/order/rings.hpp"
#include "clusterize/plan/node_metadata.hpp"
#include "trainer/averaging/averagers.hpp"
#include "trainer/transfers.hpp"

namespace rookery {
namespace {

// What Linux lets a connection have under way, as it is set up (net.ipv4.tcp_rmem, tcp_wmem: 6 and 4 MB at
// most, of which half is payload).
constexpr double kUnderWayBytes = 2 << 20;
// Credit comes back when an eighth of it is used up, and a quarter of a ring's is of pieces that have come
// before their turn.
constexpr double kRingSlack = 1.5;

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

// Whether a stage's machine has no memory for so many bytes more.
bool is_short_of(std::int64_t bytes, const NodePool& pool, const Planned& planned, std::size_t cluster,
                 int stage) {
  bytes += planned.plan.clusters[cluster].stages[stage].prediction.total_bytes();
  return static_cast<double>(bytes) > 1e9 * pool.node(planned.members[cluster][stage]).ram_gb;
}

// Fewer connections take less memory, so that this ends.
void leave_one_where_memory_is_short(const TrainingTask& task, const NodePool& pool, Planned& planned) {
  ClusterPlan& plan = planned.plan;
  const auto is_short = [&](std::size_t c, const Stage& stage) {
    return is_short_of(held_bytes(task, planned, c, stage), pool, planned, c, stage.index);
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

// The nodes of the pool that send to each other in a ring through these stages, by cluster.
std::vector<std::pair<int, int>> neighbours(const Planned& planned, const std::vector<int>& stages) {
  std::vector<std::pair<int, int>> found;
  const std::size_t clusters = planned.members.size();
  for (std::size_t c = 0; c < clusters; ++c) {
    const std::size_t next = (c + 1) % clusters;
    found.emplace_back(planned.members[c][stages[c]], planned.members[next][stages[next]]);
  }
  return found;
}

void add_under_way_of_rings(const TrainingTask& task, const NodePool& pool, Planned& planned) {
  ClusterPlan& plan = planned.plan;
  const std::size_t clusters = plan.clusters.size();
  const auto members = static_cast<int>(clusters);
  for (Ring& ring : plan.rings) {
    std::vector<LinkSpeed> links;
    for (const auto& [a, b] : neighbours(planned, ring.stages)) links.push_back(pool.link(a, b));
    const std::optional<std::uint64_t> under_way = ring_under_way(links);
    if (!under_way) continue;
    const AveragedLoad load = load_of(ring);
    const auto more =
        static_cast<std::int64_t>(round_traffic(task.settings, load, members, *under_way).buffer_bytes() -
                                  round_traffic(task.settings, load, members).buffer_bytes());
    if (more == 0) continue;  // it has no more to send
    bool fits = true;
    for (std::size_t c = 0; c < clusters; ++c)
      fits = fits && !is_short_of(more, pool, planned, c, ring.stages[c]);
    if (!fits) continue;
    ring.under_way = under_way;
    for (std::size_t c = 0; c < clusters; ++c)
      plan.clusters[c].stages[ring.stages[c]].prediction.averaging_bytes += more;
  }
}

}  // namespace

int data_connections(const LinkSpeed& link) {
  const double bytes_per_ms = 125 * link.bandwidth_mbps;
  const double needed = std::ceil(bytes_per_ms * 2 * link.latency_ms / kUnderWayBytes);
  return static_cast<int>(std::clamp(needed, 1.0, double{kMostDataConnections}));
}

std::optional<std::uint64_t> ring_under_way(std::span<const LinkSpeed> links) {
  // A ring is as fast as its slowest link.
  const double bytes_per_ms = 125 * std::ranges::min(links, {}, &LinkSpeed::bandwidth_mbps).bandwidth_mbps;
  const double trip_ms = 2 * std::ranges::max(links, {}, &LinkSpeed::latency_ms).latency_ms;
  const double bytes = std::min(kRingSlack * bytes_per_ms * trip_ms, kMostDataConnections * kUnderWayBytes);
  if (bytes <= kRingUnderWay) return std::nullopt;
  return static_cast<std::uint64_t>(std::ceil(bytes));
}

void fill_long_links(const TrainingTask& task, const NodePool& pool, Planned& planned) {
  ClusterPlan& plan = planned.plan;
  const std::size_t clusters = planned.members.size();
  const auto add = [&](int a, int b) {
    if (a == b) return;
    const int connections = data_connections(pool.link(a, b));
    if (connections == 1) return;
    plan.connections[node_pair("node_" + pool.node(a).id, "node_" + pool.node(b).id)] = connections;
  };
  const auto add_neighbours = [&](const std::vector<int>& stages) {
    for (const auto& [a, b] : neighbours(planned, stages)) add(a, b);
  };
  for (const std::vector<int>& members : planned.members) {
    for (const int a : members)
      for (const int b : members) add(a, b);
  }
  add_neighbours(std::vector<int>(clusters, 0));  // the Roots
  for (const Ring& ring : plan.rings) add_neighbours(ring.stages);
  if (plan.connections.empty()) return;
  leave_one_where_memory_is_short(task, pool, planned);
  for (std::size_t c = 0; c < clusters; ++c) {
    for (const Stage& stage : planned.stages[c])
      plan.clusters[c].stages[stage.index].prediction.transport_bytes += held_bytes(task, planned, c, stage);
  }
  if (clusters > 1) add_under_way_of_rings(task, pool, planned);
}

}  // namespace rookery
