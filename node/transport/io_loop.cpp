#include "node/transport/io_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/process/program.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{100};
constexpr milliseconds kHelloAgain{1000};
constexpr milliseconds kFirstBackoff{20};
constexpr milliseconds kMaxBackoff{500};
constexpr milliseconds kFarewell{1000};  // for the last packets to leave
constexpr int kRouterBurst = 256;        // packets before other work gets its turn
// Connections at a time besides those of the peers. Each of them may hold some 60 KB of ZeroMQ's and one
// frame that is not complete; with those in the kernel's queue that is 50 MB in all.
constexpr int kMostStrangers = 96;
// Each peer opens one per channel, and may open it anew before this side knows that the one before is closed.
constexpr int kConnectionsPerPeer = 2 * kChannels;

std::vector<std::string> names_of(const std::vector<ZmqPeer>& peers) {
  std::vector<std::string> names;
  for (const ZmqPeer& peer : peers) names.push_back(fmt::format("{} ({})", peer.node, peer.address));
  return names;
}

std::vector<std::string> nodes_of(const std::vector<ZmqPeer>& peers) {
  std::vector<std::string> nodes;
  for (const ZmqPeer& peer : peers) nodes.push_back(peer.node);
  return nodes;
}

std::string endpoint_of(const ZmqPeer& peer) {
  return "tcp://" + Address::parse(peer.address).reachable().to_string();
}

MembershipOptions membership_options(const ZmqLinkOptions& options) {
  MembershipOptions made;
  made.node = options.node;
  made.wait_for_peers = options.wait_for_peers;
  made.peer_timeout = options.peer_timeout;
  made.reconnect_grace = options.reconnect_grace;
  return made;
}

}  // namespace

IoLoop::IoLoop(zmq::context_t& context, Listener& listener, const ZmqLinkOptions& options,
               const std::vector<ZmqPeer>& peers, LinkQueues& queues, std::uint64_t nonce)
    : turn_([&queues] { queues.wake_up(); }),
      context_(context),
      admission_(context, options.key, nodes_of(peers)),
      router_(context, listener, kMostStrangers + kConnectionsPerPeer * static_cast<int>(peers.size())),
      options_(options),
      queues_(queues),
      nonce_(nonce),
      membership_(membership_options(options), names_of(peers), Clock::now()),
      now_(Clock::now()),
      heartbeat_at_(now_),
      tick_at_(now_) {
  for (const ZmqPeer& who : peers) peers_.emplace_back(context, who, options);
}

IoLoop::Peer::Peer(zmq::context_t& context, const ZmqPeer& peer, const ZmqLinkOptions& options)
    : who(peer),
      name(fmt::format("{} ({})", peer.node, peer.address)),
      lines{Line(context, endpoint_of(peer), credentials(options.node, options.key)),
            Line(context, endpoint_of(peer), credentials(options.node, options.key))},
      out(kMaxChunkBytes),
      in(options.receive_budget, options.max_message_bytes, options.buffers) {}

void IoLoop::run() {
  bool is_open = false;
  turn_.keep([&] {
    if (!std::exchange(is_open, true)) guarded([&] { open_all(); });
    if (!is_over()) step(Clock::time_point::max());
    if (!is_over()) return true;
    finish();
    return false;
  });
}

void IoLoop::drive(const std::function<bool()>& ready, Clock::time_point deadline) {
  turn_.visit([&] {
    if (is_over() || ready() || Clock::now() >= deadline) return false;
    step(deadline);
    return true;
  });
}

void IoLoop::serve() {
  const bool is_done = turn_.try_once([&] {
    now_ = Clock::now();
    if (!is_over()) guarded([&] { serve_requests(); });
  });
  if (!is_done) queues_.wake_up();
}

void IoLoop::step(Clock::time_point deadline) {
  guarded([&] {
    poll(deadline);
    if (!membership_.over()) serve_timers();
  });
}

void IoLoop::guarded(const std::function<void()>& io) {
  try {
    io();
  } catch (const std::exception& error) {
    queues_.fail(fmt::format("the I/O of {} failed: {}", options_.node, error.what()), 0);
    requests_.abandon = true;
  }
}

void IoLoop::poll(Clock::time_point deadline) {
  std::vector<zmq::pollitem_t> items{{nullptr, queues_.wake_descriptor(), ZMQ_POLLIN, 0},
                                     {router_.socket().handle(), 0, ZMQ_POLLIN, 0},
                                     {router_.monitor().handle(), 0, ZMQ_POLLIN, 0},
                                     {admission_.socket().handle(), 0, ZMQ_POLLIN, 0}};
  const std::size_t stop_item = items.size();
  if (options_.stop_descriptor >= 0) items.push_back({nullptr, options_.stop_descriptor, ZMQ_POLLIN, 0});
  const std::size_t first_monitor = items.size();
  for (Peer& peer : peers_) {
    for (Line& line : peer.lines) {
      if (line.connector.is_open()) items.push_back({line.connector.monitor().handle(), 0, ZMQ_POLLIN, 0});
    }
  }
  try {
    const auto left = std::chrono::ceil<milliseconds>(std::min(deadline, next_timer()) - Clock::now());
    zmq::poll(items, std::max(left, milliseconds(0)));
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw;
  }
  now_ = Clock::now();
  const auto news = [](const zmq::pollitem_t& item) { return (item.revents & ZMQ_POLLIN) != 0; };
  serve_router();
  if (news(items[0])) serve_requests();
  if (news(items[2])) router_.serve_connections();
  if (news(items[3])) serve_admission();
  if (first_monitor > stop_item && news(items[stop_item])) serve_stop_signal();
  if (std::any_of(items.begin() + static_cast<std::ptrdiff_t>(first_monitor), items.end(), news))
    serve_monitors();
}

void IoLoop::serve_requests() {
  queues_.collect(requests_);
  if (requests_.status) status_ = requests_.status;
  for (int i = 0; i < static_cast<int>(peers_.size()); ++i) {
    Peer& peer = peers_[i];
    for (const OutgoingMessage& message : requests_.messages[i]) peer.out.push(message);
    send_chunks(i);
    if (requests_.flush && !peer.out.empty()) line(i, Channel::kData).connector.send(encode(CtlAckRequest{}));
    if (requests_.released[i] == 0) continue;
    peer.in.release(requests_.released[i]);
    if (peer.in.unannounced_credit() >= options_.receive_budget / 4) {
      send_ack(i);
    } else if (!peer.ack_at) {
      peer.ack_at = now_ + kAckDelay;
    }
  }
  if (requests_.leave) tell(event::LeaveWanted{});
  if (requests_.stop) tell(event::StopWanted{*requests_.stop});
}

void IoLoop::serve_router() {
  Received received;
  for (int i = 0; i < kRouterBurst && !membership_.over() && router_.receive(received); ++i) accept(received);
}

void IoLoop::serve_admission() {
  admission_.serve([&](int node, const std::string& from, const std::string& reason) {
    if (node < 0 || !membership_.gathering()) {
      const std::string who = node < 0 ? "" : " as " + peers_[node].who.node;
      return warnings_.warn(fmt::format("refused a connection from {}{}: {}", from, who, reason), now_);
    }
    peers_[node].is_misfit = true;
    tell(event::PeerRefused{node, reason});
  });
}

void IoLoop::serve_monitors() {
  for (int i = 0; i < static_cast<int>(peers_.size()); ++i) {
    for (const Channel channel : {Channel::kControl, Channel::kData}) {
      switch (line(i, channel).connector.news()) {
        case Connector::News::kNone:
          continue;
        case Connector::News::kClosed:
          tell(event::PeerClosed{i});
          break;
        case Connector::News::kRefused:
          if (peers_[i].is_misfit) break;
          tell(event::PeerRefused{
              i,
              "it refuses this node, whose plan it does not know: copy node_data from the same "
              "clusterize run to every machine"});
          break;
        case Connector::News::kForeign:
          tell(event::PeerRefused{i, "what listens there is no provider of this version of Rookery"});
          break;
      }
      reopen_later(i, channel);
    }
  }
}

void IoLoop::serve_stop_signal() {
  const int signal = stop_signal();
  if (signal == 0) return;
  tell(event::StopWanted{{options_.node, stop_reason(signal), signal}});
}

void IoLoop::serve_timers() {
  const bool heartbeat = now_ >= heartbeat_at_;
  const bool tick = now_ >= tick_at_;
  if (heartbeat) heartbeat_at_ = now_ + options_.heartbeat;
  if (tick) tick_at_ = now_ + kTick;
  if (heartbeat || tick) serve_requests();  // also what did not ask to be served at once
  for (int i = 0; i < static_cast<int>(peers_.size()); ++i) {
    Peer& peer = peers_[i];
    if (membership_.parted(i)) continue;
    if (peer.ack_at && now_ >= *peer.ack_at) send_ack(i);
    for (const Channel channel : {Channel::kControl, Channel::kData}) {
      Line& each = line(i, channel);
      if (each.reopen_at && now_ >= *each.reopen_at) open(i, channel);
      if (each.connector.is_connected() && !each.welcomed && now_ >= each.hello_at) say_hello(i, channel);
    }
    const bool connected = line(i, Channel::kControl).connector.is_connected();
    if (heartbeat && connected) {
      const int waiting_for = requests_.waiting_for < 0 ? -1 : peers_[requests_.waiting_for].who.stage;
      send_control(i, CtlHeartbeat{peer.in.position(), requests_.progress, waiting_for});
      peer.in.announced();
    }
    if (tick && status_ && connected) send_control(i, *status_);
    if (tick) revive(i);
    const auto stalled = peer.out.stalled_since();
    if (stalled && now_ - *stalled > options_.peer_timeout / 2) {
      spdlog::warn("no acknowledgement from {} for {:.1f} s; reconnecting", peer.name,
                   std::chrono::duration<double>(now_ - *stalled).count());
      reopen_later(i, Channel::kData);
    }
  }
  if (tick) {
    router_.serve_connections();
    status_.reset();
    tell(event::Tick{});
  }
}

Clock::time_point IoLoop::next_timer() const {
  Clock::time_point next = std::min(heartbeat_at_, tick_at_);
  for (const Peer& peer : peers_) {
    if (peer.ack_at) next = std::min(next, *peer.ack_at);
    for (const Line& each : peer.lines) {
      if (each.reopen_at) next = std::min(next, *each.reopen_at);
    }
  }
  return next;
}

// What TCP has under way over a network that is cut it sends again after ever longer pauses, up to twice as
// long as the cut. A new connection finds a network that is back within a second or so.
void IoLoop::revive(int peer) {
  Peer& silent = peers_[peer];
  if (membership_.gathering() || now_ - std::max(silent.heard, silent.revived) < options_.peer_timeout / 4)
    return;
  silent.revived = now_;
  for (const Channel channel : {Channel::kControl, Channel::kData}) {
    if (line(peer, channel).connector.is_connected()) reopen_later(peer, channel);
  }
}

// ZeroMQ would try for ever, and say nothing.
void IoLoop::name_unresolved() {
  for (int i = 0; i < static_cast<int>(peers_.size()); ++i) {
    const Address address = Address::parse(peers_[i].who.address).reachable();
    if (!resolve(address.host).empty()) continue;
    tell(event::PeerRefused{
        i, fmt::format("this machine cannot resolve the host name {}; check node_configs.json, or "
                       "/etc/hosts here",
                       address.host)});
  }
}

void IoLoop::open_all() {
  name_unresolved();
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    for (const Channel channel : {Channel::kControl, Channel::kData}) open(peer, channel);
  }
}

void IoLoop::open(int peer, Channel channel) {
  Line& each = line(peer, channel);
  each.reopen_at.reset();
  each.welcomed = false;
  if (channel == Channel::kData) peers_[peer].out.suspend();
  each.connector.open();
  say_hello(peer, channel);
}

void IoLoop::reopen_later(int peer, Channel channel) {
  Line& each = line(peer, channel);
  each.connector.close();
  each.welcomed = false;
  if (channel == Channel::kData) peers_[peer].out.suspend();
  if (membership_.parted(peer)) return;
  each.backoff = std::clamp(each.backoff * 2, kFirstBackoff, kMaxBackoff);
  each.reopen_at = now_ + each.backoff;
}

void IoLoop::say_hello(int peer, Channel channel) {
  Line& each = line(peer, channel);
  each.hello_at = now_ + kHelloAgain;
  each.connector.send(
      encode(CtlHello{nonce_, options_.node, options_.stage, channel, each.connector.number()}));
}

void IoLoop::send_chunks(int peer) {
  Connector& connector = line(peer, Channel::kData).connector;
  while (const OutgoingChunk* chunk = peers_[peer].out.next(now_)) connector.send(*chunk);
}

void IoLoop::send_ack(int peer) {
  peers_[peer].ack_at.reset();
  send_control(peer, CtlAck{peers_[peer].in.position()});
  peers_[peer].in.announced();
}

void IoLoop::send_control(int peer, const Packet& packet) {
  line(peer, Channel::kControl).connector.send(encode(packet));
}

void IoLoop::tell(const MembershipEvent& event) {
  for (const MembershipAction& action : membership_.on(event, now_)) act(action);
}

void IoLoop::act(const MembershipAction& action) {
  const auto flood = [&](const Packet& packet, int except) {
    for (int i = 0; i < static_cast<int>(peers_.size()); ++i) {
      if (i != except) send_control(i, packet);
    }
  };
  if (std::holds_alternative<action::Begin>(action)) {
    queues_.begin();
  } else if (const auto* report = std::get_if<action::Report>(&action)) {
    if (options_.on_waiting) {
      options_.on_waiting(report->text);
    } else {
      spdlog::info("{}", report->text);
    }
  } else if (const auto* stop = std::get_if<action::FloodStop>(&action)) {
    flood(CtlStop{stop->notice.origin, stop->notice.reason, stop->notice.signal}, stop->except);
  } else if (const auto* bye = std::get_if<action::SendBye>(&action)) {
    if (status_) send_control(bye->peer, *status_);  // the last one
    send_control(bye->peer, CtlBye{bye->confirms});
  } else if (const auto* forget = std::get_if<action::Forget>(&action)) {
    peers_[forget->peer].in =
        ReceiveStream(options_.receive_budget, options_.max_message_bytes, options_.buffers);
    queues_.forget(forget->peer);
  } else if (const auto* departed = std::get_if<action::Departed>(&action)) {
    queues_.depart(departed->peer);
  } else if (const auto* fail = std::get_if<action::Fail>(&action)) {
    queues_.fail(fail->message, fail->signal);
  } else {
    queues_.end();
  }
}

void IoLoop::finish() {
  const auto farewell = membership_.over() ? kFarewell : milliseconds(0);
  for (Peer& peer : peers_) {
    for (Line& each : peer.lines) {
      const bool control = &each == &peer.lines[static_cast<std::size_t>(Channel::kControl)];
      // What waits for a peer that is not there would only delay the end.
      each.connector.close(control && each.connector.is_connected() ? farewell : milliseconds(0));
    }
  }
  router_.close();
  admission_.close();
}

}  // namespace rookery
