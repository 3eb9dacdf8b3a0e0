// What the I/O does for the connections to peers: opening them, and opening them anew where they are closed,
// silent or get no descriptor.

#include <algorithm>
#include <cerrno>
#include <utility>

#include "models/base/libraries/format.hpp"
#include "node/transport/io_loop.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHelloAgain{1000};
constexpr milliseconds kFirstBackoff{20};
constexpr milliseconds kMaxBackoff{500};

}  // namespace

void IoLoop::serve_channels(int peer) {
  for (const Channel channel : channels_of(peer)) {
    ChannelState& each = state_of(peer, channel);
    if (each.reopen_at && now_ >= *each.reopen_at) open(peer, channel);
    if (each.welcomed || now_ < each.hello_at) continue;
    if (each.outgoing.is_connected()) {
      say_hello(peer, channel);
    } else if (each.outgoing.connector() == nullptr && channel != Channel::kControl) {
      each.hello_at = now_ + kHelloAgain;
      send_control(peer, CtlReopen{channel});
    }
  }
}

// Where one of the peer's streams goes on, the connection stands.
void IoLoop::serve_stalls(int peer) {
  std::optional<Clock::time_point> stalled;
  for (const SharedGroup& shared : peers_[peer].shared_groups) {
    const auto since = shared.streams().out.stalled_since();
    if (since && (!stalled || *since > *stalled)) stalled = since;
  }
  if (!stalled || now_ - *stalled <= options_.peer_timeout / 2) return;
  spdlog::warn("no acknowledgement from {} for {:.1f} s; reconnecting", peers_[peer].name,
               std::chrono::duration<double>(now_ - *stalled).count());
  for (const Channel channel : data_channels_of(peer)) reopen_later(peer, channel);
}

// What TCP has under way over a network that is cut it sends again after ever longer pauses, up to twice as
// long as the cut. A new connection finds a network that is back within a second or so.
void IoLoop::revive(int peer) {
  Peer& silent = peers_[peer];
  const auto runs = [](const SharedGroup& shared) { return !shared.group->membership.gathering(); };
  if (std::ranges::none_of(peers_[peer].shared_groups, runs) ||
      now_ - std::max(silent.heard, silent.revived) < options_.peer_timeout / 4)
    return;
  silent.revived = now_;
  for (const Channel channel : channels_of(peer)) {
    const PeerChannel& outgoing = state_of(peer, channel).outgoing;
    if (outgoing.is_connected()) reopen_later(peer, channel);
  }
}

void IoLoop::open(int peer, Channel channel) {
  ChannelState& each = state_of(peer, channel);
  each.reopen_at.reset();
  if (each.outgoing.connector() == nullptr) return;  // the peer opens
  close(each);
  try {
    each.outgoing.open();
  } catch (const zmq::error_t& error) {
    if (error.num() != EMFILE && error.num() != ENFILE) throw;
    warnings_.warn(fmt::format("cannot connect to {} now: {}", peers_[peer].name, error.what()), now_);
    each.lacks_descriptor = true;
    tell_of<event::PeerClosed>(peer);
    tell_of<event::PeerRefused>(
        peer,
        fmt::format("this machine has no descriptor for its connection ({}); see ulimit -n", error.what()));
    return reopen_later(peer, channel);  // others free theirs meanwhile, as the connection before does
  }
  if (std::exchange(each.lacks_descriptor, false)) tell_of<event::PeerRefused>(peer, std::string());
  misses_descriptors_.fill(true);
  begin_session(peer, channel);
}

void IoLoop::reach(int peer, Channel channel) {
  ChannelState& each = state_of(peer, channel);
  if (each.outgoing.is_open()) return;
  if (each.outgoing.connector() != nullptr) return open(peer, channel);
  if (each.incoming.empty()) return;
  each.outgoing.adopt(each.incoming);
  begin_session(peer, channel);
}

// A new connection stands or will: nothing of the one before counts.
void IoLoop::begin_session(int peer, Channel channel) {
  state_of(peer, channel).welcomed = false;
  if (channel != Channel::kControl) suspend_streams(peer);
  if (channel == Channel::kData && shares_memory() && peers_[peer].is_on_this_machine)
    peers_[peer].to_local.begin_session();
  say_hello(peer, channel);
}

// Until all connections for data stand: what was under way on the others is sent again, too.
void IoLoop::suspend_streams(int peer) {
  for (const SharedGroup& shared : peers_[peer].shared_groups) shared.streams().out.suspend();
}

void IoLoop::reopen_later(int peer, Channel channel) {
  ChannelState& each = state_of(peer, channel);
  close(each);
  each.welcomed = false;
  if (channel != Channel::kControl) suspend_streams(peer);
  const auto goes_on = [](const SharedGroup& shared) {
    return !shared.group->membership.parted(shared.member);
  };
  if (std::ranges::none_of(peers_[peer].shared_groups, goes_on)) return;
  each.backoff = std::clamp(each.backoff * 2, kFirstBackoff, kMaxBackoff);
  each.reopen_at = now_ + each.backoff;
}

void IoLoop::close(ChannelState& channel, milliseconds linger) {
  std::ranges::for_each(descriptors_of(channel.outgoing), [&](int each) { take_out(each); });
  channel.outgoing.close(linger);
}

void IoLoop::say_hello(int peer, Channel channel) {
  ChannelState& each = state_of(peer, channel);
  each.hello_at = now_ + kHelloAgain;
  CtlHello hello{nonce_, options_.node, channel, each.outgoing.number(), {}};
  if (channel == Channel::kData) hello.memory = peers_[peer].to_local.offer();
  send(peer, channel, encode(hello));
}

}  // namespace rookery
