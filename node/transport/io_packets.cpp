// What the I/O thread does with the packets that arrive. Nothing is believed before a valid CtlHello
// has bound the connection to a peer; what does not fit is dropped with a warning that names the sender.
#include <fmt/format.h>

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/text.hpp"
#include "node/transport/io_loop.hpp"

namespace rookery {
namespace {

std::span<const std::byte> bytes_of(const zmq::message_t& message) {
  return {static_cast<const std::byte*>(message.data()), message.size()};
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
    peers_[peer].heard = now_;
    tell(event::PeerHeard{peer});
    const bool fits_channel =
        std::holds_alternative<CtlAckRequest>(packet) || (chunk != nullptr) == (channel == Channel::kData);
    if (!fits_channel) throw TransportError(fmt::format("a {} on the wrong channel", name_of(packet)));
    if (chunk != nullptr) {
      accept_chunk(peer, *chunk, received);
    } else {
      accept_control(peer, packet);
    }
  } catch (const TransportError& error) {
    const std::string sender = bound != bindings_.end()
                                   ? peers_[bound->second.peer].name
                                   : fmt::format("{} at {}", received.user, received.from);
    warnings_.warn(fmt::format("dropped a packet from {}: {}", sender, error.what()), now_);
  }
}

std::optional<std::string> IoLoop::misfit(const CtlHello& hello, const std::string& user) const {
  const auto peer =
      std::find_if(peers_.begin(), peers_.end(), [&](const Peer& p) { return p.who.stage == hello.stage; });
  if (peer == peers_.end() || peer->who.node != hello.node) {
    return fmt::format("{} as stage {} is not a peer in this plan", printable(hello.node, kMostOfAName),
                       hello.stage);
  }
  if (hello.node != user) return fmt::format("{} says that it is {}", user, hello.node);
  return std::nullopt;
}

bool IoLoop::is_alive(const Peer& peer) const {
  const bool stands =
      std::any_of(peer.lines.begin(), peer.lines.end(), [](const Line& each) { return each.welcomed; });
  return peer.is_proven && stands && now_ - peer.heard < options_.peer_timeout;
}

void IoLoop::accept_hello(const CtlHello& hello, const Received& received) {
  if (const auto reason = misfit(hello, received.user)) throw TransportError(*reason);
  const auto named =
      std::find_if(peers_.begin(), peers_.end(), [&](const Peer& p) { return p.who.node == hello.node; });
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
    for (Line& each : named->lines) each.incoming_number = 0;
  }
  Line& incoming = line(peer, hello.channel);
  // Connections race each other: what a replaced one still said may arrive after its successor's hello.
  if (hello.connection < incoming.incoming_number) return;
  incoming.incoming_number = hello.connection;
  if (incoming.incoming != received.connection) {
    bindings_.erase(incoming.incoming);
    incoming.incoming = received.connection;
    bindings_[received.connection] = {peer, hello.channel};
  }
  tell(event::PeerCame{peer, hello.nonce});
  if (membership_.over()) return;
  if (first) {  // it listens now: no need to wait for the next attempt
    for (const Channel channel : {Channel::kControl, Channel::kData}) {
      if (!line(peer, channel).connector.is_connected()) open(peer, channel);
    }
  }
  send_control(peer, CtlWelcome{hello.nonce, hello.channel, hello.connection, named->in.position()});
  named->in.announced();
}

void IoLoop::accept_control(int peer, const Packet& packet) {
  if (const auto* welcome = std::get_if<CtlWelcome>(&packet)) {
    welcomed(peer, *welcome);
  } else if (const auto* heartbeat = std::get_if<CtlHeartbeat>(&packet)) {
    acknowledge(peer, heartbeat->position);
    const auto awaited = std::find_if(peers_.begin(), peers_.end(),
                                      [&](const Peer& p) { return p.who.stage == heartbeat->waiting_for; });
    std::string name = awaited == peers_.end() ? "" : awaited->name;
    if (heartbeat->waiting_for == options_.stage) name = "this node";
    queues_.hear_progress(peer, heartbeat->progress, name);
  } else if (const auto* ack = std::get_if<CtlAck>(&packet)) {
    acknowledge(peer, ack->position);
  } else if (std::holds_alternative<CtlAckRequest>(packet)) {
    send_ack(peer);
  } else if (const auto* status = std::get_if<CtlStatus>(&packet)) {
    queues_.hear_status(*status);
  } else if (const auto* stop = std::get_if<CtlStop>(&packet)) {
    // Nobody ends a run who has only said that he is a peer.
    if (!peers_[peer].is_proven)
      throw TransportError("a stop from a process that has not welcomed this node");
    tell(event::StopCame{
        peer,
        {printable(stop->origin, kMostOfAName), printable(stop->reason, kMostOfAReason), stop->signal}});
  } else if (const auto* bye = std::get_if<CtlBye>(&packet)) {
    tell(event::PeerSaidBye{peer, bye->confirms});
  }
}

void IoLoop::accept_chunk(int peer, const DataChunk& chunk, const Received& received) {
  ReceiveStream& in = peers_[peer].in;
  const auto verdict = in.offer(chunk, bytes_of(received.payload));
  if (!peers_[peer].ack_at) peers_[peer].ack_at = now_ + kAckDelay;
  if (verdict != ReceiveStream::Verdict::kAccepted) return;
  if (in.unannounced_bytes() >= kMaxChunkBytes) send_ack(peer);
  if (auto message = in.take_message()) {
    const std::uint64_t cost = message->cost;
    try {
      queues_.deliver(peer, std::move(*message));
    } catch (const TransportError&) {
      in.release(cost);
      throw;
    }
  }
}

void IoLoop::welcomed(int peer, const CtlWelcome& welcome) {
  Line& each = line(peer, welcome.channel);
  if (welcome.nonce != nonce_ || welcome.connection != each.connector.number() || !each.connector.is_open() ||
      each.welcomed) {
    return;  // the answer to an older or a repeated hello
  }
  each.welcomed = true;
  peers_[peer].is_proven = true;
  each.backoff = std::chrono::milliseconds(0);
  if (welcome.channel == Channel::kData) {
    queues_.acknowledged(peer, peers_[peer].out.resume(welcome.position, now_));
    send_chunks(peer);
  } else if (membership_.leaving()) {
    send_control(
        peer, CtlBye{membership_.departed(peer)});  // the first may have gone down with the connection before
  }
  const auto& lines = peers_[peer].lines;
  if (std::all_of(lines.begin(), lines.end(), [](const Line& l) { return l.welcomed; })) {
    tell(event::PeerWelcomed{peer});
  }
}

void IoLoop::acknowledge(int peer, const StreamPosition& position) {
  queues_.acknowledged(peer, peers_[peer].out.acknowledge(position, now_));
  send_chunks(peer);
}

}  // namespace rookery
