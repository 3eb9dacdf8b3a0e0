// What the I/O does with the packets that arrive. Nothing is believed before a valid CtlHello has bound the
// connection to a peer; what does not fit is dropped with a warning that names the sender.

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"
#include "node/transport/io_loop.hpp"

namespace rookery {
namespace {

// "node_1 (10.0.0.7:8080)", whose host name may have 253 characters.
constexpr std::size_t kMostOfAnOrigin = 300;

// In the time that a group's receive budget takes to arrive.
constexpr std::uint64_t kAcknowledgements = 8;

std::span<const std::byte> bytes_of(const zmq::message_t& message) {
  return {static_cast<const std::byte*>(message.data()), message.size()};
}

// The same, taken from the frame.
SharedBytes owned_bytes_of(zmq::message_t& message) {
  const auto owner = std::make_shared<zmq::message_t>(std::move(message));
  return {owner, static_cast<std::byte*>(owner->data())};
}

}  // namespace

void IoLoop::accept(Received& received) {
  const auto bound = bindings_.find(received.connection);
  try {
    if (received.frames < 1 || received.frames > 2)
      throw TransportError("it has no header or too many frames");
    const Packet packet = decode(bytes_of(received.header));
    const auto* chunk = std::get_if<DataChunk>(&packet);
    if ((chunk != nullptr) != (received.frames == 2)) {
      throw TransportError(fmt::format("a {} of {} frames", name_of(packet), received.frames));
    }
    if (const auto* hello = std::get_if<CtlHello>(&packet)) return accept_hello(*hello, received);
    if (bound == bindings_.end()) {
      throw TransportError(
          fmt::format("a {} on a connection that has not said hello, or was replaced", name_of(packet)));
    }
    const auto [peer, channel] = bound->second;
    hear(peer);
    const bool fits_channel =
        std::holds_alternative<CtlAckRequest>(packet) || (chunk != nullptr) == (channel != Channel::kControl);
    if (!fits_channel) throw TransportError(fmt::format("a {} on the wrong channel", name_of(packet)));
    if (chunk == nullptr) return accept_control(peer, packet);
    if (chunk->memory.bytes != 0)
      throw TransportError(to_string(chunk->key) + " in memory, of which only a local channel tells");
    accept_chunk(peer, *chunk, Payload::of(bytes_of(received.payload), [&received] {
                   return owned_bytes_of(received.payload);
                 }));
  } catch (const TransportError& error) {
    const std::string sender = bound != bindings_.end()
                                   ? peers_[bound->second.peer].name
                                   : fmt::format("{} at {}", received.user, received.from);
    warnings_.warn(fmt::format("dropped a packet from {}: {}", sender, error.what()), now_);
  }
}

bool IoLoop::accept_local(int peer, const LocalReceiver::LocalPacket& local) {
  const Packet packet = decode(local.header);
  hear(peer);
  if (const auto* chunk = std::get_if<DataChunk>(&packet)) {
    if (chunk->memory.bytes != 0 && !local.payload.empty())
      throw TransportError(to_string(chunk->key) + " both in memory and in its packet");
    return accept_chunk(peer, *chunk, Payload::of(local.payload, nullptr));
  }
  const bool fits = std::holds_alternative<CtlAck>(packet) || std::holds_alternative<CtlAckRequest>(packet);
  if (!fits || !local.payload.empty())
    throw TransportError(fmt::format("a {} on the local channel", name_of(packet)));
  accept_control(peer, packet);
  return false;
}

void IoLoop::hear(int peer) {
  peers_[peer].heard = now_;
  tell_of<event::PeerHeard>(peer);
}

bool IoLoop::is_alive(const Peer& peer) const {
  // That a connection which the peer has opened is gone shows only when something is sent on it, and only
  // control always has something to send.
  const bool stands = peer.who.reachable
                          ? std::ranges::any_of(peer.channels, &ChannelState::welcomed)
                          : peer.channels[static_cast<std::size_t>(Channel::kControl)].welcomed;
  return peer.is_proven && stands && now_ - peer.heard < options_.peer_timeout;
}

void IoLoop::serve_local(int peer) {
  std::optional<LocalReceiver>& from = peers_[peer].from_local;
  for (int i = 0; i < kBurst && from && !from->is_closed(); ++i) {
    try {
      const auto packet = from->receive();
      if (!packet || accept_local(peer, *packet)) break;
    } catch (const TransportError& error) {
      warnings_.warn(fmt::format("dropped a packet from {}: {}", peers_[peer].name, error.what()), now_);
    }
  }
  if (from && from->is_closed()) receive_locally(peer, std::nullopt);
}

void IoLoop::receive_locally(int peer, std::optional<LocalReceiver> from) {
  std::optional<LocalReceiver>& before = peers_[peer].from_local;
  if (before) take_out(before->descriptor());
  before = std::move(from);
  misses_descriptors_.fill(true);
}

void IoLoop::accept_hello(const CtlHello& hello, const Received& received) {
  const auto named =
      std::ranges::find_if(peers_, [&](const Peer& peer) { return peer.who.node == hello.node; });
  if (named == peers_.end())
    throw TransportError(fmt::format("{} is not a peer in this plan", printable(hello.node, kMostOfAName)));
  if (hello.node != received.user)
    throw TransportError(fmt::format("{} says that it is {}", received.user, hello.node));
  if (!named->has(hello.channel)) {
    throw TransportError(fmt::format("it opens connection {} for data, where the plan has {}",
                                     static_cast<int>(hello.channel), named->who.connections));
  }
  const int peer = static_cast<int>(named - peers_.begin());
  const bool first = named->nonce != hello.nonce;
  if (first && is_alive(*named)) {
    throw TransportError(fmt::format("another process says that it is {}, which is alive", named->name));
  }
  named->nonce = hello.nonce;
  named->heard = now_;
  named->is_misfit = false;
  if (first) {
    named->is_proven = false;
    receive_locally(peer, std::nullopt);
    for (ChannelState& each : named->channels) {  // what the one before has sent counts no longer
      bindings_.erase(each.incoming);
      each.incoming.clear();
      each.incoming_number = 0;
    }
  }
  ChannelState& state = state_of(peer, hello.channel);
  // Connections race each other: what a replaced one still said may arrive after its successor's hello.
  if (hello.connection < state.incoming_number) return;
  state.incoming_number = hello.connection;
  const bool is_new = state.incoming != received.connection;
  if (is_new) {
    bindings_.erase(state.incoming);
    state.incoming = received.connection;
    bindings_[received.connection] = {peer, hello.channel};
  }
  const std::optional<LocalReceiver>& from_local = named->from_local;
  if (shares_memory() && hello.channel == Channel::kData &&
      (!from_local || from_local->memory().offer() != hello.memory)) {
    receive_locally(peer, LocalReceiver::open(hello.memory));
  }
  tell_of<event::PeerCame>(peer, hello.nonce);
  if (is_new && !named->who.reachable) {
    state.outgoing.adopt(received.connection);
    begin_session(peer, hello.channel);
  }
  for (const Channel channel : channels_of(peer)) {
    // It listens now: no need to wait for the next attempt.
    if (first && !state_of(peer, channel).outgoing.is_connected()) open(peer, channel);
  }
  welcome(peer, hello.channel);
  // What came on the other channels before could not be answered without this one.
  if (is_new && !named->who.reachable && hello.channel == Channel::kControl) {
    for (const Channel channel : data_channels_of(peer)) welcome(peer, channel);
  }
}

void IoLoop::welcome(int peer, Channel channel) {
  const ChannelState& state = state_of(peer, channel);
  if (state.incoming_number == 0) return;
  CtlWelcome welcome{*peers_[peer].nonce, channel, state.incoming_number, {}, 0};
  const std::optional<LocalReceiver>& from_local = peers_[peer].from_local;
  if (channel == Channel::kData && from_local) welcome.reader = from_local->memory().reader();
  for (const SharedGroup& shared : peers_[peer].shared_groups) {
    ReceiveStream& in = shared.streams().in;
    welcome.positions.push_back({shared.group->options.group, in.position()});
    in.announced();
  }
  send_control(peer, welcome);
}

void IoLoop::accept_control(int peer, const Packet& packet) {
  if (const auto* welcome = std::get_if<CtlWelcome>(&packet)) {
    accept_welcome(peer, *welcome);
  } else if (const auto* heartbeat = std::get_if<CtlHeartbeat>(&packet)) {
    accept_heartbeat(peer, *heartbeat);
  } else if (const auto* ack = std::get_if<CtlAck>(&packet)) {
    if (const auto shared = shared_group_of(peer, ack->group)) acknowledge(*shared, ack->position);
  } else if (const auto* request = std::get_if<CtlAckRequest>(&packet)) {
    if (const auto shared = shared_group_of(peer, request->group)) send_ack(*shared);
  } else if (const auto* status = std::get_if<CtlStatus>(&packet)) {
    if (const auto shared = shared_group_of(peer, status->group)) shared->group->queues.hear_status(*status);
  } else if (const auto* figures = std::get_if<CtlFigures>(&packet)) {
    if (const auto shared = shared_group_of(peer, figures->group))
      shared->group->queues.hear_figures(shared->member, *figures);
  } else if (const auto* stop = std::get_if<CtlStop>(&packet)) {
    accept_stop(peer, *stop);
  } else if (const auto* bye = std::get_if<CtlBye>(&packet)) {
    if (const auto shared = shared_group_of(peer, bye->group))
      tell(*shared->group, event::PeerSaidBye{shared->member, bye->confirms});
  } else if (const auto* join = std::get_if<CtlJoin>(&packet)) {
    accept_join(peer, *join);
  } else if (const auto* reopen = std::get_if<CtlReopen>(&packet)) {
    if (peers_[peer].has(reopen->channel) && state_of(peer, reopen->channel).welcomed)
      reopen_later(peer, reopen->channel);
  }
}

void IoLoop::accept_heartbeat(int peer, const CtlHeartbeat& heartbeat) {
  for (const GroupState& state : heartbeat.groups) {
    const auto shared = shared_group_of(peer, state.group);
    if (!shared) {
      tell_end(peer, state.group);
      continue;
    }
    acknowledge(*shared, state.position);
    shared->group->queues.hear_progress(shared->member, state.progress,
                                        shared->group->name_of(state.waiting_for));
  }
}

// Nobody ends a run who has only said that he is a peer.
void IoLoop::accept_stop(int peer, const CtlStop& stop) {
  if (!peers_[peer].is_proven) throw TransportError("a stop from a process that has not welcomed this node");
  const auto shared = shared_group_of(peer, stop.group);
  if (!shared) return;
  tell(*shared->group, event::StopCame{shared->member,
                                       {printable(stop.origin, kMostOfAnOrigin),
                                        printable(stop.reason, kMostOfAReason), stop.signal}});
}

void IoLoop::accept_join(int peer, const CtlJoin& join) {
  const auto shared = shared_group_of(peer, join.group);
  if (!shared) return tell_end(peer, join.group);
  const Group& group = *shared->group;
  const Group::Place& place = group.places[shared->member];
  const int ranks = static_cast<int>(group.options.members.size());
  if (join.rank != place.rank || join.ranks != ranks) {
    throw TransportError(
        fmt::format("it takes itself for rank {} of {} of group {}, where it is rank {} of {}", join.rank,
                    join.ranks, join.group, place.rank, ranks));
  }
  SendStream& out = shared->streams().out;
  if (out.is_suspended() && peers_[peer].takes_data()) {
    shared->group->queues.acknowledged(shared->member, out.resume(join.position, now_));
    send_chunks(peer);
  } else {
    acknowledge(*shared, join.position);
  }
  tell(*shared->group, event::PeerJoined{shared->member});
  if (!join.knows) send_join(*shared);
}

bool IoLoop::accept_chunk(int peer, const DataChunk& chunk, const Payload& payload) {
  const auto shared = shared_group_of(peer, chunk.group);
  if (!shared) {  // on its way when the group ended
    if (ended_.contains(chunk.group)) return false;
    throw TransportError(
        fmt::format("{} of group {}, which this node has not joined", to_string(chunk.key), chunk.group));
  }
  if (chunk.memory.bytes == 0) return accept_payload(*shared, chunk, payload);
  bool is_awaited = false;
  DataChunk each = chunk;
  for (std::uint64_t left = chunk.memory.bytes; left > 0; left -= each.memory.bytes) {
    each.memory.bytes = std::min<std::uint64_t>(left, kMaxChunkBytes);
    is_awaited |= accept_payload(*shared, each, to_be_read(peer, each));
    ++each.sequence;
    each.offset += each.memory.bytes;
    each.memory.address += each.memory.bytes;
  }
  return is_awaited;
}

bool IoLoop::accept_payload(const SharedGroup& shared, const DataChunk& chunk, const Payload& payload) {
  Group::Member& streams = shared.streams();
  LinkQueues& queues = shared.group->queues;
  std::byte* const memory =
      chunk.offset == 0 ? queues.memory_for(shared.member, chunk.key, chunk.type) : nullptr;
  const auto verdict = streams.in.offer(chunk, payload, memory);
  if (!streams.ack_at) streams.ack_at = now_ + kAckDelay;
  if (verdict != ReceiveStream::Verdict::kAccepted) return false;
  shared.group->note(chunk.key);
  const std::uint64_t often = shared.group->options.receive_budget / kAcknowledgements;
  if (streams.in.unannounced_bytes() >= std::max(kMaxChunkBytes, often)) send_ack(shared);
  bool is_awaited = false;
  while (auto message = streams.in.take_message()) {
    const std::uint64_t cost = message->cost;
    try {
      is_awaited |= queues.deliver(shared.member, std::move(*message));
    } catch (const TransportError&) {
      streams.in.release(cost);
      throw;
    }
  }
  return is_awaited;
}

Payload IoLoop::to_be_read(int peer, const DataChunk& chunk) const {
  const PeerMemory& memory = peers_[peer].from_local->memory();
  Payload payload{.size = chunk.memory.bytes, .copy = {}, .keep = {}};
  payload.copy = [&chunk, &memory](std::byte* into) {
    if (!memory.read(chunk.memory.address, {into, chunk.memory.bytes}))
      throw TransportError(to_string(chunk.key) + " is no longer in its memory");
  };
  return payload;
}

void IoLoop::accept_welcome(int peer, const CtlWelcome& welcome) {
  if (!peers_[peer].has(welcome.channel)) return;
  ChannelState& each = state_of(peer, welcome.channel);
  if (welcome.nonce != nonce_ || welcome.connection != each.outgoing.number() || !each.outgoing.is_open() ||
      each.welcomed) {
    return;  // the answer to an older or a repeated hello
  }
  each.welcomed = true;
  peers_[peer].is_proven = true;
  each.backoff = std::chrono::milliseconds(0);
  if (welcome.channel == Channel::kData) {
    if (welcome.reader != 0) {
      peers_[peer].to_local.admit(welcome.reader);
    } else {
      peers_[peer].to_local.end_session();
    }
  }
  if (welcome.channel != Channel::kControl) {
    if (!peers_[peer].takes_data()) return;
    for (const auto& [group, position] : welcome.positions) {
      const auto shared = shared_group_of(peer, group);
      if (shared)
        shared->group->queues.acknowledged(shared->member, shared->streams().out.resume(position, now_));
    }
    send_chunks(peer);
  } else {  // what was said last may have gone down with the connection before
    for (const SharedGroup& shared : peers_[peer].shared_groups) {
      const Membership& membership = shared.group->membership;
      send_join(shared);
      if (membership.leaving())
        send_control(peer, CtlBye{shared.group->options.group, membership.departed(shared.member)});
    }
  }
  if (peers_[peer].is_welcomed()) tell_of<event::PeerWelcomed>(peer);
}

void IoLoop::acknowledge(const SharedGroup& shared, const StreamPosition& position) {
  shared.group->queues.acknowledged(shared.member, shared.streams().out.acknowledge(position, now_));
  send_chunks(peer_of(shared));
}

}  // namespace rookery
