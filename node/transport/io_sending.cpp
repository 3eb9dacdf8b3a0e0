// What the I/O sends: packets of control, acknowledgements, and the chunks that may leave.

#include <algorithm>

#include "node/transport/io_loop.hpp"

namespace rookery {

void IoLoop::send(int peer, Channel channel, std::span<const std::byte> header) {
  state_of(peer, channel).outgoing.send(header);
  sockets_are_used_ = true;
}

void IoLoop::send_control(int peer, const Packet& packet) {
  send(peer, Channel::kControl, encode(packet));
}

void IoLoop::send_ack(const SharedGroup& shared) {
  Group::Member& streams = shared.streams();
  streams.ack_at.reset();
  const std::vector<std::byte> ack = encode(CtlAck{shared.group->options.group, streams.in.position()});
  const int peer = peer_of(shared);
  if (!peers_[peer].to_local.send(ack)) send(peer, Channel::kControl, ack);
  streams.in.announced();
}

void IoLoop::request_ack(int peer, GroupId group) {
  const std::vector<std::byte> request = encode(CtlAckRequest{group});
  if (peers_[peer].to_local.send(request)) return;
  for (const Channel channel : data_channels_of(peer)) send(peer, channel, request);
}

void IoLoop::send_heartbeat(int peer) {
  if (!state_of(peer, Channel::kControl).outgoing.is_connected()) return;
  CtlHeartbeat heartbeat;
  for (const SharedGroup& shared : peers_[peer].shared_groups) {
    const Group& group = *shared.group;
    const int awaited = group.requests.waiting_for;
    ReceiveStream& in = shared.streams().in;
    heartbeat.groups.push_back({group.options.group, in.position(), group.requests.progress,
                                awaited < 0 ? -1 : group.places[awaited].rank});
    in.announced();
  }
  send_control(peer, heartbeat);
}

void IoLoop::send_chunks(int peer) {
  Peer& to = peers_[peer];
  std::vector<const OutgoingChunk*> row;
  while (const OutgoingChunk* chunk = to.order.next(now_)) {
    if (!row.empty() && !goes_on_with(row, *chunk)) {
      send_row(to, row);
      row.clear();
    }
    row.push_back(chunk);
  }
  if (!row.empty()) send_row(to, row);
}

// What the local channel does not take goes as it does to other machines, and may overtake what it has taken.
void IoLoop::send_row(Peer& to, std::span<const OutgoingChunk* const> row) {
  if (to.to_local.send(row)) return;
  sockets_are_used_ = true;
  const std::span<ChannelState> data = std::span(to.channels).subspan(1);
  for (const OutgoingChunk* chunk : row) {
    data[to.next_data].outgoing.send(*chunk);
    to.next_data = (to.next_data + 1) % data.size();
  }
}

void IoLoop::send_due() {
  if (!timer_ || next_due() > now_) return;
  sockets_are_used_ = true;
  for (Peer& peer : peers_) {
    for (ChannelState& each : peer.channels) each.outgoing.send_due(now_);
  }
}

Clock::time_point IoLoop::next_due() const {
  Clock::time_point next = Clock::time_point::max();
  for (const Peer& peer : peers_) {
    for (const ChannelState& each : peer.channels) next = std::min(next, each.outgoing.due());
  }
  return next;
}

}  // namespace rookery
