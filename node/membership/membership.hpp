// Membership decides who takes part in a group's run, and whether the run goes on: the authority over the
// other members, its peers, apart from sockets, threads and clocks. It is told events and answers with
// actions. Every group has its own, and knows nothing of others: a peer that is lost ends each group that it
// is in, and the process's owner says whether that ends others, too (RunEnded).
//
//   run:   gathering ─all peers here─► running ─leave wanted─► leaving ─all byes confirmed─► ended
//          any of them ─peer lost, stop, nobody came─► failed
//   peer:  absent ─► here (came, welcomed, joined) ─► (connection closed: back within the grace, or lost) ─►
//   gone (said bye)
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace rookery {

struct MembershipOptions {
  std::string node;  // own name
  std::chrono::milliseconds wait_for_peers{300'000};
  std::chrono::milliseconds report_missing{5'000};  // how often it is told who is missing
  std::chrono::milliseconds peer_timeout{10'000};   // a peer of which nothing was heard for longer is lost
  // After which a peer is lost whose connection it or the network has closed and that is not back.
  std::chrono::milliseconds reconnect_grace{10'000};
};

// Why a run ends before its time.
struct StopNotice {
  std::string origin;  // node; "node_1 (0.0.0.0:8081)" once another node has relayed it
  std::string reason;  // "was stopped by SIGINT (Ctrl-C)", "failed: losses.txt: No space left on device"
  int signal = 0;      // 0: none
  bool operator==(const StopNotice&) const = default;
};

// "was stopped by SIGINT (Ctrl-C)"
std::string stop_reason(int signal);

namespace event {
struct PeerCame {
  int peer;
  std::uint64_t nonce;
};  // its valid hello
struct PeerWelcomed {
  int peer;
};  // it has welcomed all our connections
struct PeerJoined {
  int peer;
};  // it takes part in this group
struct PeerHeard {
  int peer;
};  // any packet of it
struct PeerClosed {
  int peer;
};  // a connection to it was closed, not by this node, or cannot be opened
struct PeerRefused {
  int peer;
  std::string reason;
};  // why it is not here, fit for a terminal; empty: what was said before holds no longer
struct PeerSaidBye {
  int peer;
  bool confirms;  // it has ours
};
struct StopCame {
  int peer;
  StopNotice notice;
};
struct StopWanted {
  StopNotice notice;
};  // by this node
struct RunEnded {
  StopNotice notice;
  std::string message;  // for this node's calls
  int signal;
};                      // another group of this process has failed so, and takes this one with it
struct LeaveWanted {};  // this node's run is done
struct Tick {};
}  // namespace event
using MembershipEvent =
    std::variant<event::PeerCame, event::PeerWelcomed, event::PeerJoined, event::PeerHeard, event::PeerClosed,
                 event::PeerRefused, event::PeerSaidBye, event::StopCame, event::StopWanted, event::RunEnded,
                 event::LeaveWanted, event::Tick>;

namespace action {
struct Begin {
  bool operator==(const Begin&) const = default;
};  // all peers are here
struct Report {
  std::string text;
  bool operator==(const Report&) const = default;
};
// To every peer but `except`.
struct FloodStop {
  StopNotice notice;
  int except = -1;
  bool operator==(const FloodStop&) const = default;
};
struct SendBye {
  int peer;
  bool confirms;  // we have its
  bool operator==(const SendBye&) const = default;
};
// The peer was started anew before the run began: nothing of its former life counts.
struct Forget {
  int peer;
  bool operator==(const Forget&) const = default;
};
// The peer has ended its run in good order.
struct Departed {
  int peer;
  bool operator==(const Departed&) const = default;
};
// Every pending and future call fails with `message`; `signal` when this node was asked to stop by one.
struct Fail {
  std::string message;
  int signal = 0;
  bool operator==(const Fail&) const = default;
};
struct End {
  bool operator==(const End&) const = default;
};  // all have said bye
}  // namespace action
using MembershipAction = std::variant<action::Begin, action::Report, action::FloodStop, action::SendBye,
                                      action::Forget, action::Departed, action::Fail, action::End>;

class Membership {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Actions = std::vector<MembershipAction>;

  // `peers` are their names for people, "node_1 (0.0.0.0:8081)"; events count them from 0. They are the
  // members that this one talks with, all or its neighbours; through them a stop comes to all. `place` says
  // where a loss has struck, "ring 2, round 17"; empty, as none, where nobody would ask.
  Membership(MembershipOptions options, std::vector<std::string> peers, Time now,
             std::function<std::string()> place = {});

  Actions on(const MembershipEvent& event, Time now);

  bool leaving() const { return run_ == Run::kLeaving; }
  bool joined(int peer) const { return peers_[peer].joined; }
  // Whether the peer has said bye; and whether nothing is left to be said between us.
  bool departed(int peer) const { return peers_[peer].gone; }
  bool parted(int peer) const { return peers_[peer].gone && peers_[peer].told; }
  bool gathering() const { return run_ == Run::kGathering; }
  bool over() const { return run_ == Run::kEnded || run_ == Run::kFailed; }

 private:
  enum class Run : std::uint8_t { kGathering, kRunning, kLeaving, kEnded, kFailed };
  struct Peer {
    std::string name;
    std::optional<std::uint64_t> nonce;  // of the process that came
    bool welcomed = false;
    bool joined = false;
    bool gone = false;  // said bye
    bool told = false;  // has our bye
    Time heard{};
    std::optional<Time> closed;
    std::string refused;  // why it is not here
    bool here() const { return nonce && welcomed && joined; }
  };

  Actions handle(const event::PeerCame& came, Time now);
  Actions handle(const event::PeerWelcomed& welcomed, Time now);
  Actions handle(const event::PeerJoined& joined, Time now);
  Actions handle(const event::PeerHeard& heard, Time now);
  Actions handle(const event::PeerClosed& closed, Time now);
  Actions handle(const event::PeerRefused& refused, Time now);
  Actions handle(const event::PeerSaidBye& bye, Time now);
  Actions handle(const event::StopCame& stop, Time now);
  Actions handle(const event::StopWanted& stop, Time now);
  Actions handle(const event::RunEnded& ended, Time now);
  Actions handle(const event::LeaveWanted& leave, Time now);
  Actions handle(const event::Tick& tick, Time now);

  Actions begin_when_all_here(Time now);
  Actions end_when_all_parted();
  Actions gather(Time now);
  Actions watch(Time now);
  Actions lose(const Peer& peer, const std::string& why);
  std::string absence(const Peer& peer, Time now) const;
  static std::string why_not_here(const Peer& peer);
  std::string missing() const;
  std::string blame() const;

  MembershipOptions options_;
  std::vector<Peer> peers_;
  std::function<std::string()> place_;
  Run run_ = Run::kGathering;
  Time started_;
  Time reported_;
  Time ticked_;
};

}  // namespace rookery
