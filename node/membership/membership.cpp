#include "node/membership/membership.hpp"

#include <algorithm>
#include <utility>

#include "models/base/check.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/stop_signals.hpp"

namespace rookery {
namespace {

// For the confirmation of a bye to come over a new connection.
constexpr std::chrono::seconds kConfirmation{3};

double seconds(Membership::Time::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

void append(Membership::Actions& actions, Membership::Actions more) {
  for (MembershipAction& action : more) actions.push_back(std::move(action));
}

}  // namespace

std::string stop_reason(int signal) {
  return fmt::format("was stopped by {}", signal_name(signal));
}

Membership::Membership(MembershipOptions options, std::vector<std::string> peers, Time now,
                       std::function<std::string()> place)
    : options_(std::move(options)), place_(std::move(place)), started_(now), reported_(now), ticked_(now) {
  for (std::string& name : peers) {
    Peer peer;
    peer.name = std::move(name);
    peers_.push_back(std::move(peer));
  }
}

Membership::Actions Membership::on(const MembershipEvent& event, Time now) {
  if (over()) return {};
  return std::visit([&](const auto& of_type) { return handle(of_type, now); }, event);
}

Membership::Actions Membership::handle(const event::PeerCame& came, Time now) {
  Peer& peer = peers_.at(came.peer);
  peer.heard = now;
  if (peer.nonce != came.nonce) peer.refused.clear();
  if (peer.nonce && *peer.nonce != came.nonce && !gathering()) {
    return peer.gone ? Actions{} : lose(peer, "it was restarted during the run");
  }
  Actions actions;
  if (peer.nonce && *peer.nonce != came.nonce) {
    peer.joined = false;
    actions.emplace_back(action::Forget{came.peer});
  }
  peer.nonce = came.nonce;
  append(actions, begin_when_all_here(now));
  return actions;
}

Membership::Actions Membership::handle(const event::PeerWelcomed& welcomed, Time now) {
  Peer& peer = peers_.at(welcomed.peer);
  peer.welcomed = true;
  peer.refused.clear();
  peer.closed.reset();
  return begin_when_all_here(now);
}

Membership::Actions Membership::handle(const event::PeerJoined& joined, Time now) {
  peers_.at(joined.peer).joined = true;
  return begin_when_all_here(now);
}

Membership::Actions Membership::handle(const event::PeerHeard& heard, Time now) {
  peers_.at(heard.peer).heard = now;
  return {};
}

Membership::Actions Membership::handle(const event::PeerClosed& closed, Time now) {
  Peer& peer = peers_.at(closed.peer);
  if (gathering()) {  // it may be started again
    peer.welcomed = false;
  } else if (!peer.closed) {
    peer.closed = now;
  }
  return {};
}

// Told at once; what else is found out about it comes with the next report, since strangers may be behind it.
Membership::Actions Membership::handle(const event::PeerRefused& refused, Time) {
  Peer& peer = peers_.at(refused.peer);
  const bool is_news = gathering() && !peer.here() && std::exchange(peer.refused, refused.reason).empty();
  if (!is_news || refused.reason.empty()) return {};
  return {action::Report{fmt::format("waiting for {}: {}", peer.name, refused.reason)}};
}

Membership::Actions Membership::handle(const event::PeerSaidBye& bye, Time) {
  Peer& peer = peers_.at(bye.peer);
  const bool first = !std::exchange(peer.gone, true);
  peer.told = peer.told || bye.confirms;
  Actions actions;
  if (first) actions.emplace_back(action::Departed{bye.peer});
  // It shall know that we have its bye, once; more often only while it does not know ours.
  if (run_ == Run::kLeaving && (first || !bye.confirms))
    actions.emplace_back(action::SendBye{bye.peer, true});
  append(actions, end_when_all_parted());
  return actions;
}

Membership::Actions Membership::handle(const event::StopCame& stop, Time) {
  run_ = Run::kFailed;
  StopNotice notice = stop.notice;
  // Whoever gets it from here may not know where that node is.
  const auto named = std::ranges::find_if(
      peers_, [&](const Peer& peer) { return peer.name.starts_with(notice.origin + " ("); });
  if (named != peers_.end()) notice.origin = named->name;
  return {action::FloodStop{notice, stop.peer}, action::Fail{notice.origin + " " + notice.reason}};
}

Membership::Actions Membership::handle(const event::StopWanted& stop, Time) {
  run_ = Run::kFailed;
  return {action::FloodStop{stop.notice},
          action::Fail{stop.notice.origin + " " + stop.notice.reason, stop.notice.signal}};
}

Membership::Actions Membership::handle(const event::RunEnded& ended, Time) {
  run_ = Run::kFailed;
  return {action::FloodStop{ended.notice}, action::Fail{ended.message, ended.signal}};
}

Membership::Actions Membership::handle(const event::LeaveWanted&, Time) {
  if (run_ != Run::kRunning) return {};
  run_ = Run::kLeaving;
  Actions actions;
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    actions.emplace_back(action::SendBye{peer, peers_[peer].gone});
  }
  append(actions, end_when_all_parted());
  return actions;
}

Membership::Actions Membership::handle(const event::Tick&, Time now) {
  // When this process itself stood still (stopped, suspended), silence was its own: peers' packets
  // wait to be read. Ticks come every 100 ms.
  constexpr std::chrono::milliseconds kNoStandstill{300};
  const auto gap = now - std::exchange(ticked_, now);
  if (gap > std::max(options_.peer_timeout / 4, kNoStandstill)) {
    for (Peer& peer : peers_) {
      peer.heard = std::max(peer.heard, std::min(now, peer.heard + gap));
      if (peer.closed) peer.closed = *peer.closed + gap;
    }
  }
  return gathering() ? gather(now) : watch(now);
}

Membership::Actions Membership::begin_when_all_here(Time now) {
  if (!gathering() ||
      !std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.here(); })) {
    return {};
  }
  run_ = Run::kRunning;
  for (Peer& peer : peers_) peer.heard = now;
  return {action::Begin{}};
}

Membership::Actions Membership::end_when_all_parted() {
  const auto parted = [](const Peer& peer) { return peer.gone && peer.told; };
  if (run_ != Run::kLeaving || !std::all_of(peers_.begin(), peers_.end(), parted)) return {};
  run_ = Run::kEnded;
  return {action::End{}};
}

Membership::Actions Membership::gather(Time now) {
  if (now - started_ >= options_.wait_for_peers) {
    run_ = Run::kFailed;
    const std::string reason =
        fmt::format("gave up after {:.0f} s: {}", seconds(options_.wait_for_peers), blame());
    return {action::FloodStop{{options_.node, reason}}, action::Fail{reason}};
  }
  if (now - reported_ < options_.report_missing) return {};
  reported_ = now;
  return {
      action::Report{fmt::format("waiting for {} ({:.0f} s so far)", missing(), seconds(now - started_))}};
}

Membership::Actions Membership::watch(Time now) {
  for (Peer& peer : peers_) {
    const bool away = peer.closed && now - *peer.closed >= options_.reconnect_grace;
    const bool silent = now - peer.heard >= options_.peer_timeout;
    if (peer.gone) {  // it ends only with our bye in hand; what is lost is its confirmation
      const bool has_ended = peer.closed && now - *peer.closed >= kConfirmation;
      peer.told = peer.told || (run_ == Run::kLeaving && (has_ended || silent));
    } else if (away || silent) {
      return lose(peer, absence(peer, now));
    }
  }
  return end_when_all_parted();
}

// "nothing heard for 10.0 s (peer_timeout_seconds), connection closed 9.6 s ago"; or that it is not back.
std::string Membership::absence(const Peer& peer, Time now) const {
  const std::string closed =
      peer.closed ? fmt::format("connection closed {:.1f} s ago", seconds(now - *peer.closed)) : "";
  if (now - peer.heard < options_.peer_timeout) return closed + " and not back (reconnect_grace_seconds)";
  return fmt::format("nothing heard for {:.1f} s (peer_timeout_seconds){}{}", seconds(now - peer.heard),
                     closed.empty() ? "" : ", ", closed);
}

Membership::Actions Membership::lose(const Peer& peer, const std::string& why) {
  run_ = Run::kFailed;
  const std::string place = place_ ? place_() : "";
  const std::string what =
      fmt::format("{} is lost{}{}: {}", peer.name, place.empty() ? "" : " in ", place, why);
  return {action::FloodStop{{options_.node, "ended the run: " + what}}, action::Fail{what}};
}

// As far as is known; empty where nothing was ever heard.
std::string Membership::why_not_here(const Peer& peer) {
  if (!peer.refused.empty()) return peer.refused;
  return peer.nonce && peer.welcomed ? "its provider runs, but takes no part yet" : "";
}

// "node_1 (10.0.0.7:8080), node_2 (10.0.0.9:8080): it runs plan …"
std::string Membership::missing() const {
  std::string names;
  for (const Peer& peer : peers_) {
    if (peer.here()) continue;
    names += (names.empty() ? "" : ", ") + peer.name;
    if (const std::string reason = why_not_here(peer); !reason.empty()) names += ": " + reason;
  }
  return names;
}

// "node_1 (…) and node_3 (…) never answered; are their providers running? node_2 (…): it runs plan …"
std::string Membership::blame() const {
  std::string unheard;
  std::string refused;
  int count = 0;
  for (const Peer& peer : peers_) {
    if (peer.here()) continue;
    const std::string reason = why_not_here(peer);
    if (reason.empty()) {
      unheard += (count++ == 0 ? "" : " and ") + peer.name;
    } else {
      refused += (refused.empty() ? "" : "; ") + peer.name + ": " + reason;
    }
  }
  if (count == 0) return refused;
  return fmt::format("{} never answered; {}{}{}", unheard,
                     count == 1 ? "is its provider running?" : "are their providers running?",
                     refused.empty() ? "" : " ", refused);
}

}  // namespace rookery
