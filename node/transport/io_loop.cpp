#include "node/transport/io_loop.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <limits>
#include <utility>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{100};
constexpr int kBurst = 256;  // packets before other work gets its turn
// A group's thread that stays away for longer computes. Until then it finds what has come sooner than the I/O
// thread would hand it over, and the tensor that it waits for is copied once.
constexpr milliseconds kAway{5};
// Connections at a time besides those of the peers. Each of them may hold some 60 KB of ZeroMQ's and one
// frame that is not complete; with those in the kernel's queue that is 50 MB in all.
constexpr int kMostStrangers = 96;

// Each peer opens one per channel, and may open it anew before this side knows that the one before is closed.
int connections_of(const std::vector<EndpointPeer>& peers) {
  int connections = 0;
  for (const EndpointPeer& peer : peers) connections += 2 * (1 + peer.connections);
  return connections;
}

// A connection is a socket, and a monitor of two; those closed last may not be freed yet.
int sockets_for(const std::vector<EndpointPeer>& peers) {
  constexpr int kSocketsEach = 3, kOwn = 16;
  constexpr int kMost = 65535;  // that ZeroMQ takes
  return std::clamp(kSocketsEach * connections_of(peers) + kOwn, ZMQ_MAX_SOCKETS_DFLT, kMost);
}

std::vector<std::string> nodes_of(const std::vector<EndpointPeer>& peers) {
  std::vector<std::string> nodes;
  for (const EndpointPeer& peer : peers) nodes.push_back(peer.node);
  return nodes;
}

bool has_news(zmq::socket_ref socket) {
  try {
    return (socket.get(zmq::sockopt::events) & ZMQ_POLLIN) != 0;
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw;
    return true;  // perhaps
  }
}

}  // namespace

IoLoop::IoLoop(EndpointOptions options, std::uint64_t nonce)
    : options_(std::move(options)),
      nonce_(nonce),
      turn_(options_.slow_network ? milliseconds(0)
                                  : kAway),  // with limits packets wait for somebody to send them
      context_(1),
      now_(Clock::now()),
      heartbeat_at_(now_),
      tick_at_(now_) {
  if (options_.slow_network) timer_.emplace();
  if (!options_.reachable) return;
  listener_.emplace(options_.node, Address::parse(options_.address),
                    "give this machine another port in node_configs.json and run clusterize again");
}

std::string IoLoop::address() const {
  return listener_ ? listener_->address().to_string() : options_.address;
}

void IoLoop::start(std::vector<EndpointPeer> peers) {
  ROOKERY_CHECK(!admission_, "{} was started already", options_.node);
  for (const EndpointPeer& peer : peers) {
    ROOKERY_CHECK(peer.connections >= 1 && peer.connections <= kMostDataChannels, "{} connections",
                  peer.connections);
    if (options_.reachable || peer.reachable) continue;
    throw ConfigError(fmt::format(
        "neither {} nor {} can be reached from outside (\"reachable\": false in node_configs.json), so "
        "that they cannot talk to each other: run clusterize again, which makes no neighbours of such nodes",
        options_.node, peer.node));
  }
  context_.set(zmq::ctxopt::max_sockets, sockets_for(peers));
  admission_.emplace(context_, options_.key, nodes_of(peers));
  if (listener_) router_.emplace(context_, *listener_, kMostStrangers + connections_of(peers));
  peers_.reserve(peers.size());
  for (EndpointPeer& peer : peers) peers_.push_back(make_peer(std::move(peer)));
}

IoLoop::Peer IoLoop::make_peer(EndpointPeer who) {
  const auto new_channel = [&] {
    if (!who.reachable) return ChannelState(PeerChannel(*router_));
    return ChannelState(PeerChannel(Connector(context_, Address::parse(who.address).reachable(),
                                              credentials(options_.node, options_.key))));
  };
  std::vector<ChannelState> channels;
  for (int i = 0; i <= who.connections; ++i) {
    channels.push_back(new_channel());
    if (options_.slow_network && !who.on_same_machine)
      channels.back().outgoing.slow_down(*options_.slow_network, i == 0);
  }
  return Peer(std::move(who), std::move(channels));
}

IoLoop::Peer::Peer(EndpointPeer given, std::vector<ChannelState> made)
    : who(std::move(given)),
      name(fmt::format("{} ({})", who.node, who.address)),
      channels(std::move(made)),
      is_on_this_machine(who.reachable && is_local(Address::parse(who.address))) {}

void IoLoop::run() {
  turn_.keep([&] {
    if (!is_abandoned_ && !is_broken_) step(Clock::time_point::max(), Driver::kIoThread);
    wake_sleepers();
    if (!is_abandoned_ && !is_broken_) return true;
    finish();
    return false;
  });
}

void IoLoop::abandon() {
  is_abandoned_ = true;
  waker_.wake_up();
}

std::shared_ptr<void> IoLoop::drive(const std::function<bool()>& ready, Clock::time_point deadline) {
  return turn_.visit([&] {
    const bool is_over = is_abandoned_ || is_broken_ || is_finished_ || ready() || Clock::now() >= deadline;
    if (is_over) {
      wake_sleepers();
    } else {
      step(deadline, Driver::kGroupThread);
    }
    return !is_over;
  });
}

void IoLoop::serve() {
  const bool is_done = turn_.try_once([&] {
    now_ = Clock::now();
    if (is_broken_ || is_finished_) return;
    guarded([&] {
      serve_requests();
      retire_ended();
    });
    wake_sleepers();
  });
  if (!is_done) waker_.wake_up();
}

void IoLoop::leave_memory(Group& group, int member, const MessageKey& key, const std::byte* memory) {
  turn_.once([&] {
    group.members[member].in.leave_memory(memory);
    group.queues.leave_memory(member, key, memory, group.options.buffers);
  });
}

void IoLoop::step(Clock::time_point deadline, Driver driver) {
  guarded([&] {
    wait(sockets_are_used_ ? Clock::time_point::min() : std::min(deadline, next_timer()), driver);
    if (is_finished_) return;
    serve_sockets();
    serve_timers();
    retire_ended();
    send_due();
  });
}

void IoLoop::guarded(const std::function<void()>& io) {
  try {
    io();
  } catch (const std::exception& error) {
    for (const auto& [number, group] : groups_)
      group->queues.fail(fmt::format("the I/O of {} failed: {}", options_.node, error.what()), 0);
    is_broken_ = true;
  }
}

void IoLoop::wait(Clock::time_point until, Driver driver) {
  const auto who = static_cast<std::size_t>(driver);
  DescriptorSet& descriptors = descriptors_[who];
  if (std::exchange(misses_descriptors_[who], false)) descriptors.assign(descriptors_now());
  if (timer_) timer_->set(next_due());

  const Clock::time_point now = Clock::now();
  const auto left = std::chrono::ceil<milliseconds>(std::max(until, now) - now);
  const int timeout = static_cast<int>(std::min<std::int64_t>(left.count(), std::numeric_limits<int>::max()));
  std::span<const std::size_t> readable;
  const auto look = [&] { readable = descriptors.wait(timeout); };
  if (until == Clock::time_point::min()) {
    look();
  } else {
    auto& sleeps_until = sleeps_until_[who];
    sleeps_until = until;
    turn_.lend_during(look);
    sleeps_until.reset();
  }

  // Others have had the turn meanwhile: what was readable need not be there any more, and nobody waits for
  // it.
  if (is_finished_) return;
  now_ = Clock::now();
  const std::size_t first_socket = kFirstLocal + peers_.size();
  const std::size_t first_of_peers = first_socket + (router_ ? 3 : 1);  // behind the common ones
  for (const std::size_t place : readable)
    if (place >= kFirstLocal && place < first_socket) serve_local(static_cast<int>(place - kFirstLocal));
  for (const std::size_t place : readable) {
    if (place == kOfWaker) {
      waker_.reset();
      serve_requests();
    }
    if (place == kOfStop) serve_stop_signal();
    if (place >= first_socket) sockets_are_used_ = true;
    if (place >= first_of_peers) has_peers_news_ = true;
  }
}

std::vector<int> IoLoop::descriptors_now() {
  std::vector<int> all(kFirstLocal, -1);
  all[kOfWaker] = waker_.descriptor();
  if (!groups_.empty()) all[kOfStop] = options_.stop_descriptor;
  if (timer_) all[kOfTimer] = timer_->descriptor();
  for (const Peer& peer : peers_) all.push_back(peer.from_local ? peer.from_local->descriptor() : -1);
  for (const zmq::socket_ref socket : common_sockets()) all.push_back(socket.get(zmq::sockopt::fd));
  for (Peer& peer : peers_)
    for (ChannelState& each : peer.channels)
      std::ranges::copy(descriptors_of(each.outgoing), std::back_inserter(all));
  return all;
}

std::vector<int> IoLoop::descriptors_of(PeerChannel& channel) const {
  Connector* connector = channel.connector();
  if (connector == nullptr || !connector->is_open()) return {};
  std::vector<int> all{connector->monitor().get(zmq::sockopt::fd)};
  if (!options_.reachable) all.push_back(connector->socket().get(zmq::sockopt::fd));
  return all;
}

void IoLoop::take_out(int descriptor) {
  for (DescriptorSet& each : descriptors_) each.remove(descriptor);
}

void IoLoop::wake_sleepers() {
  const auto& [io_thread, group_thread] = sleeps_until_;
  const bool is_urgent = sockets_are_used_ || is_abandoned_ || is_broken_ ||
                         misses_descriptors_[static_cast<std::size_t>(Driver::kIoThread)];
  if (group_thread || (io_thread && (is_urgent || next_timer() < *io_thread))) waker_.wake_up();
}

std::vector<zmq::socket_ref> IoLoop::common_sockets() {
  if (!router_) return {admission_->socket()};
  return {admission_->socket(), router_->socket(), router_->monitor()};
}

void IoLoop::serve_sockets() {
  if (!sockets_are_used_) return;
  std::vector<bool> news;
  std::ranges::transform(common_sockets(), std::back_inserter(news), has_news);
  const bool is_of_peers = std::exchange(has_peers_news_, false);
  sockets_are_used_ = is_of_peers || std::ranges::find(news, true) != news.end();
  if (!options_.reachable) serve_connectors();
  if (!sockets_are_used_) return;
  if (router_) serve_router();
  if (news[0]) serve_admission();
  if (router_ && news[2]) router_->serve_connections();
  if (is_of_peers) serve_monitors();
}

void IoLoop::serve_router() {
  Received received;
  for (int i = 0; i < kBurst && router_->receive(received); ++i) accept(received);
}

// What peers send on the connections that this node has opened.
void IoLoop::serve_connectors() {
  Received received;
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    for (const Channel channel : channels_of(peer)) {
      PeerChannel& outgoing = state_of(peer, channel).outgoing;
      for (int i = 0;
           i < kBurst && outgoing.connector() != nullptr && outgoing.connector()->receive(received); ++i) {
        received.connection = fmt::format("{}/{}/{}", peer, static_cast<int>(channel), outgoing.number());
        received.user = peers_[peer].who.node;
        sockets_are_used_ = true;  // there may be more
        accept(received);
      }
    }
  }
}

void IoLoop::serve_admission() {
  admission_->serve([&](int node, const std::string& from, const std::string& reason) {
    const auto gathers = [](const SharedGroup& shared) { return shared.group->membership.gathering(); };
    if (node < 0 || std::ranges::none_of(peers_[node].shared_groups, gathers)) {
      const std::string who = node < 0 ? "" : " as " + peers_[node].who.node;
      return warnings_.warn(fmt::format("refused a connection from {}{}: {}", from, who, reason), now_);
    }
    peers_[node].is_misfit = true;
    tell_of<event::PeerRefused>(node, reason);
  });
}

void IoLoop::serve_monitors() {
  for (int i = 0; i < static_cast<int>(peers_.size()); ++i) {
    for (const Channel channel : channels_of(i)) {
      switch (state_of(i, channel).outgoing.news()) {
        case Connector::News::kNone:
          continue;
        case Connector::News::kClosed:
          tell_of<event::PeerClosed>(i);
          break;
        case Connector::News::kRefused:
          if (peers_[i].is_misfit) break;
          tell_of<event::PeerRefused>(
              i,
              std::string("it refuses this node, whose plan it does not know: copy node_data from the same "
                          "clusterize run to every machine"));
          break;
        case Connector::News::kForeign:
          tell_of<event::PeerRefused>(
              i, std::string("what listens there is no provider of this version of Rookery"));
          break;
      }
      reopen_later(i, channel);
    }
  }
}

void IoLoop::serve_timers() {
  const bool heartbeat = now_ >= heartbeat_at_;
  const bool tick = now_ >= tick_at_;
  if (heartbeat) heartbeat_at_ = now_ + options_.heartbeat;
  if (tick) tick_at_ = now_ + kTick;
  if (heartbeat || tick) serve_requests();  // also what did not ask to be served at once
  for (const auto& [number, group] : groups_) serve_group(*group, tick);
  for (int i = 0; i < static_cast<int>(peers_.size()); ++i) {
    serve_channels(i);
    if (heartbeat) send_heartbeat(i);
    if (tick) revive(i);
    serve_stalls(i);
  }
  if (!tick) return;
  sockets_are_used_ = true;
  if (router_) router_->serve_connections();
  serve_monitors();  // channels that have no monitor
  for (const auto& [number, group] : groups_) tell(*group, event::Tick{});
}

Clock::time_point IoLoop::next_timer() const {
  Clock::time_point next = std::min(heartbeat_at_, tick_at_);
  for (const auto& [number, group] : groups_) {
    for (const Group::Member& member : group->members) {
      if (member.ack_at) next = std::min(next, *member.ack_at);
    }
  }
  for (const Peer& peer : peers_) {
    for (const ChannelState& each : peer.channels) {
      if (each.reopen_at) next = std::min(next, *each.reopen_at);
    }
  }
  return next;
}

void IoLoop::finish() {
  {
    const std::scoped_lock lock(opened_mutex_);
    is_closed_ = true;
  }
  now_ = Clock::now();
  guarded([&] { serve_requests(); });  // a stop, said just before
  retire_ended();
  const auto farewell = groups_.empty() ? kFarewell : milliseconds(0);
  for (const auto& [number, group] : groups_)
    group->queues.fail(fmt::format("the endpoint of {} has ended", options_.node), 0);
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    for (const Channel channel : channels_of(peer)) {
      ChannelState& each = state_of(peer, channel);
      // What waits for a peer that is not there would only delay the end.
      close(each, channel == Channel::kControl && each.outgoing.is_connected() ? farewell : milliseconds(0));
    }
  }
  for (const zmq::socket_ref socket : common_sockets()) take_out(socket.get(zmq::sockopt::fd));
  if (router_) router_->close(farewell);
  admission_->close();
  for (Peer& peer : peers_) peer.to_local.withdraw();
  unread_.clear();
  is_finished_ = true;
}

}  // namespace rookery
