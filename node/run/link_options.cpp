#include "node/run/link_options.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "models/tensor/exact_sum.hpp"
#include "node/wire/packets.hpp"
#include "node/wire/stream.hpp"
#include "trainer/checkpoint/reshard/pieces.hpp"
#include "trainer/transfers.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kLeastBudget = 1U << 20;  // for what is not a stage's tensors, in any plan

// Every stage uses a peer's tensors in the order of micro-batches in which that peer sends them, and a stage
// never sends more of them ahead than may be under way, so that nobody blocks for ever. What the end of a
// step moves is counted with them.
void set_budgets(GroupOptions& options, const Stage& stage, const NodeMetadata& metadata) {
  struct Traffic {
    std::uint64_t sent = 0, received = 0;
  };
  std::map<int, Traffic> traffic;
  std::vector<std::uint64_t> buffers;
  options.max_message_bytes =
      metadata.resume || metadata.clusters > 1 ? kCheckpointPieceBytes : sizeof(ExactSum::Words);
  // What Leaves tell the Roots of several clusters of a validation: to_numbers().
  const std::uint64_t numbers = 1 + 3 * metadata.settings.loss.terms.size();
  if (metadata.clusters > 1)
    options.max_message_bytes = std::max(options.max_message_bytes, numbers * kNumberBytes);
  const std::vector<std::int64_t> sizes = micro_batch_sizes(metadata.settings, metadata.settings.batch_size);
  const std::vector<Transfer> all = transfers(stage, sizes.front(), metadata.settings.schedule,
                                              static_cast<int>(sizes.size()), edge_encoding(metadata));
  for (const Transfer& transfer : all) {
    const auto bytes = static_cast<std::uint64_t>(transfer.bytes);
    Traffic& with_peer = traffic[transfer.peer];
    (transfer.is_sent ? with_peer.sent : with_peer.received) +=
        static_cast<std::uint64_t>(transfer.under_way) * message_cost(bytes, kMaxChunkBytes);
    options.max_message_bytes = std::max(options.max_message_bytes, bytes);
    buffers.insert(buffers.end(), static_cast<std::size_t>(transfer.under_way), bytes);
  }
  for (const std::int64_t bytes : coding_buffers(all)) buffers.push_back(static_cast<std::uint64_t>(bytes));
  options.send_budget = options.receive_budget = kLeastBudget;
  for (const auto& [peer, needs] : traffic) {
    options.send_budget = std::max(options.send_budget, needs.sent);
    options.receive_budget = std::max(options.receive_budget, needs.received);
  }
  options.buffers = BufferPool(buffers);
}

milliseconds to_milliseconds(double seconds) {
  return milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

}  // namespace

EndpointOptions endpoint_options(const NodeOptions& options, const NodeMetadata& metadata) {
  EndpointOptions made;
  made.node = metadata.node;
  made.address = options.listen.empty() ? metadata.address : options.listen;
  for (const PeerInfo& member : metadata.members) {
    if (member.node == metadata.node) made.reachable = member.reachable;
  }
  made.key = {metadata.plan_id, metadata.token};
  const TrainingSettings& settings = metadata.settings;
  made.peer_timeout = to_milliseconds(settings.peer_timeout_seconds);
  made.heartbeat = std::min(made.heartbeat, made.peer_timeout / 4);
  made.reconnect_grace = settings.reconnect_grace_seconds
                             ? std::min(to_milliseconds(*settings.reconnect_grace_seconds), made.peer_timeout)
                             : made.peer_timeout;
  made.groups_end_together = true;
  made.slow_network = options.slow_network;
  made.on_waiting = options.on_waiting;
  return made;
}

static_assert(kMostDataConnections == kMostDataChannels);

std::vector<EndpointPeer> endpoint_peers(const NodeMetadata& metadata) {
  std::vector<EndpointPeer> peers;
  const auto add = [&](const PeerInfo& peer) {
    const bool is_new =
        peer.node != metadata.node && std::ranges::find(peers, peer.node, &EndpointPeer::node) == peers.end();
    if (is_new)
      peers.push_back({.node = peer.node,
                       .address = peer.address,
                       .reachable = peer.reachable,
                       .connections = peer.connections,
                       .on_same_machine = machine_of_node(peer.node) == machine_of_node(metadata.node)});
  };
  const auto add_neighbours = [&](const std::vector<PeerInfo>& ring) {
    const int count = metadata.clusters;
    for (const int cluster : {metadata.cluster + count - 1, metadata.cluster + 1})
      add(ring.at(cluster % count));
  };
  for (const PeerInfo& member : metadata.members) add(member);
  if (metadata.clusters == 1) return peers;
  for (const auto& [id, ring] : metadata.rings) add_neighbours(ring.peers);
  if (metadata.stage == 0) add_neighbours(metadata.roots);
  return peers;
}

milliseconds longest_wait(const NodeMetadata& metadata) {
  constexpr std::chrono::minutes kAtLeast{10};
  constexpr double kAtMostSeconds = 365.0 * 86'400;  // what a clock can be asked to wait for
  constexpr double kTimesSlower = 10;
  if (metadata.clusters == 1) return kAtLeast;
  const std::int64_t steps = metadata.settings.averaging.updates_between_rounds(
      batches_per_epoch(metadata.shares.joint(), metadata.data.train_samples));
  const double predicted = kTimesSlower * static_cast<double>(steps) * metadata.predicted_step_ms / 1e3;
  return kAtLeast + to_milliseconds(std::min(predicted, kAtMostSeconds));
}

EdgeEncoding edge_encoding(const NodeMetadata& metadata) {
  EdgeEncoding encoding(metadata.settings.transport, metadata.model_inputs, metadata.data.train_samples);
  for (const LinkTransport& link : metadata.transport) encoding.set({link.from, link.to}, link.transport);
  return encoding;
}

std::optional<Reconstructions> reconstructions_of(const NodeMetadata& metadata, const Stage& stage) {
  const EdgeEncoding encoding = edge_encoding(metadata);
  if (!encoding.has_deltas()) return std::nullopt;
  const int again = sent_again(metadata.settings.schedule, stage.index, stage.count,
                               decided_micro_batches(metadata.settings));
  return Reconstructions(stage, encoding, {metadata.settings, metadata.data.train_samples, metadata.shares},
                         again);
}

GroupOptions pipeline_options(const NodeOptions& options, const NodeMetadata& metadata, const Stage& stage) {
  GroupOptions made;
  made.group = kPipelineGroup;
  for (const PeerInfo& member : metadata.members) made.members.push_back(member.node);
  made.priority = kPipelinePriority;
  made.wait_for_peers = options.wait_for_peers;
  made.deadline = longest_wait(metadata);
  set_budgets(made, stage, metadata);
  return made;
}

}  // namespace rookery
