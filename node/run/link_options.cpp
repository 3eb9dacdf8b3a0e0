#include "node/run/link_options.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "node/wire/packets.hpp"
#include "node/wire/stream.hpp"
#include "trainer/checkpoint/reshard.hpp"
#include "trainer/transfers.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kLeastBudget = 1U << 20;  // for what is not a stage's tensors, in any plan

// Every stage uses a peer's tensors in the order of micro-batches in which that peer sends them, so one of
// each under way would do to never block for ever. What the end of a step moves is counted with them.
void set_budgets(GroupOptions& options, const Stage& stage, const NodeMetadata& metadata) {
  struct Traffic {
    std::uint64_t sent = 0, received = 0;
  };
  std::map<int, Traffic> traffic;
  std::vector<std::uint64_t> buffers;
  options.max_message_bytes = metadata.resume ? kCheckpointPieceBytes : kNumberBytes;
  const std::int64_t micro_batch = micro_batch_sizes(metadata.settings, metadata.settings.batch_size).front();
  for (const Transfer& transfer : transfers(stage, micro_batch)) {
    const auto bytes = static_cast<std::uint64_t>(transfer.bytes);
    Traffic& with_peer = traffic[transfer.peer];
    (transfer.is_sent ? with_peer.sent : with_peer.received) +=
        kTransfersUnderWay * message_cost(bytes, kMaxChunkBytes);
    options.max_message_bytes = std::max(options.max_message_bytes, bytes);
    buffers.insert(buffers.end(), kTransfersUnderWay, bytes);
  }
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
  made.on_waiting = options.on_waiting;
  return made;
}

std::vector<EndpointPeer> endpoint_peers(const NodeMetadata& metadata) {
  std::vector<EndpointPeer> peers;
  for (const PeerInfo& member : metadata.members) {
    if (member.node != metadata.node) peers.push_back({member.node, member.address, member.reachable});
  }
  return peers;
}

GroupOptions pipeline_options(const NodeOptions& options, const NodeMetadata& metadata, const Stage& stage) {
  GroupOptions made;
  made.group = kPipelineGroup;
  for (const PeerInfo& member : metadata.members) made.members.push_back(member.node);
  made.priority = kPipelinePriority;
  made.wait_for_peers = options.wait_for_peers;
  set_budgets(made, stage, metadata);
  return made;
}

}  // namespace rookery
