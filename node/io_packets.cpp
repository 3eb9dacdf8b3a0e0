// What the I/O thread does with the packets that arrive. Nothing is believed before a valid CtlHello
// has bound the connection to a peer; what does not fit is dropped with a warning that names the sender.
#include <fmt/format.h>

#include <algorithm>

#include "models/base/error.hpp"
#include "node/io_loop.hpp"

namespace rookery {
namespace {

std::span<const std::byte> bytes_of(const zmq::message_t& message) {
  return {static_cast<const std::byte*>(message.data()), message.size()};
}

// Text of a peer, fit for a terminal.
std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; },
      ' ');
  return text;
}

std::string peer_address(zmq::message_t& header) {
  try {
    return header.gets("Peer-Address");
  } catch (const zmq::error_t&) {
    return "unknown address";
  }
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
    const std::string sender = bound != bindings_.end() ? peers_[bound->second.peer].name
                                                        : "someone at " + peer_address(received.header);
    warnings_.warn(fmt::format("dropped a packet from {}: {}", sender, error.what()), now_);
  }
}

std::optional<std::string> IoLoop::misfit(const CtlHello& hello) const {
  const auto peer =
      std::find_if(peers_.begin(), peers_.end(), [&](const Peer& p) { return p.who.stage == hello.stage; });
  if (peer == peers_.end() || peer->who.node != hello.node) {
    return fmt::format("{} as stage {} is none of the plan's other nodes", printable(hello.node),
                       hello.stage);
  }
  if (hello.plan_id != options_.plan_id) {
    return fmt::format("it runs plan {}, this node plan {}: give all nodes the node_data of one clusterize",
                       printable(hello.plan_id), options_.plan_id);
  }
  return std::nullopt;
}

void IoLoop::accept_hello(const CtlHello& hello, const Received& received) {
  const auto named =
      std::find_if(peers_.begin(), peers_.end(), [&](const Peer& p) { return p.who.node == hello.node; });
  if (const auto reason = misfit(hello)) {
    if (named != peers_.end()) tell(event::PeerRefused{static_cast<int>(named - peers_.begin()), *reason});
    throw TransportError(*reason);
  }
  const int peer = static_cast<int>(named - peers_.begin());
  const bool first = std::exchange(named->nonce, hello.nonce) != hello.nonce;
  if (first) {
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
    exchange_.hear_progress(peer, heartbeat->progress, name);
  } else if (const auto* ack = std::get_if<CtlAck>(&packet)) {
    acknowledge(peer, ack->position);
  } else if (std::holds_alternative<CtlAckRequest>(packet)) {
    send_ack(peer);
  } else if (const auto* status = std::get_if<CtlStatus>(&packet)) {
    exchange_.hear_status(*status);
  } else if (const auto* stop = std::get_if<CtlStop>(&packet)) {
    tell(event::StopCame{peer, {printable(stop->origin), printable(stop->reason), stop->signal}});
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
      exchange_.deliver(peer, std::move(*message));
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
  each.backoff = std::chrono::milliseconds(0);
  if (welcome.channel == Channel::kData) {
    exchange_.acknowledged(peer, peers_[peer].out.resume(welcome.position, now_));
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
  exchange_.acknowledged(peer, peers_[peer].out.acknowledge(position, now_));
  send_chunks(peer);
}

}  // namespace rookery
