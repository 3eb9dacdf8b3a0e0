// The I/O of a ZmqLink: owns every socket, turns packets into events of Membership and into messages of the
// LinkQueues, and keeps the streams going. One thread at a time does it, the one that has the turn
// (turn.hpp): the I/O thread, or the compute thread while it would only wait for a message. All members are
// protected by the turn.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "node/membership/membership.hpp"
#include "node/sockets/admission.hpp"
#include "node/sockets/connector.hpp"
#include "node/sockets/router.hpp"
#include "node/sockets/warning_limiter.hpp"
#include "node/transport/link_queues.hpp"
#include "node/transport/turn.hpp"
#include "node/transport/zmq_link.hpp"
#include "node/wire/packets.hpp"
#include "node/wire/stream.hpp"

namespace rookery {

// Acknowledgements wait this long for company.
constexpr std::chrono::milliseconds kAckDelay{20};

class IoLoop {
 public:
  // Everything outlives the loop. Its sockets are used by whoever has the turn alone. Accepts connections
  // from here on.
  IoLoop(zmq::context_t& context, Listener& listener, const ZmqLinkOptions& options,
         const std::vector<ZmqPeer>& peers, LinkQueues& queues, std::uint64_t nonce);

  // For the I/O thread: until the run has ended or failed, or abandon() was called. Anything that goes wrong
  // fails what waits in the queues.
  void run();
  // For the compute thread: does I/O until `ready`, the deadline, or the end of the run.
  void drive(const std::function<bool()>& ready, Clock::time_point deadline);
  // For the compute thread: has what it asked for done, here and without waiting, or by the I/O thread where
  // that is at work.
  void serve();

 private:
  struct Line {  // one channel to a peer
    Line(zmq::context_t& context, const std::string& endpoint, const Credentials& credentials)
        : connector(context, endpoint, credentials) {}
    Connector connector;
    bool welcomed = false;
    Clock::time_point hello_at{};  // when to say hello again
    std::optional<Clock::time_point> reopen_at;
    std::chrono::milliseconds backoff{0};
    std::string incoming;  // the ROUTER's id of the peer's connection of this channel; empty: none
    std::uint32_t incoming_number = 0;  // which of the peer's connections that is
  };
  struct Peer {
    Peer(zmq::context_t& context, const ZmqPeer& who, const ZmqLinkOptions& options);
    ZmqPeer who;
    std::string name;  // "node_1 (0.0.0.0:8081)"
    std::array<Line, kChannels> lines;
    SendStream out;
    ReceiveStream in;
    std::optional<std::uint64_t> nonce;  // of the process whose hello was taken
    bool is_proven = false;              // that process listens at the peer's address: it has read our hello
    Clock::time_point heard{};           // from it
    Clock::time_point revived{};         // when its lines were opened anew since nothing was heard
    bool is_misfit = false;  // somebody with its name was not admitted, which says more than its refusing us
    std::optional<Clock::time_point> ack_at;  // when an acknowledgement is due
  };
  // Whose connection an id of the ROUTER is, once a hello has said so.
  struct Binding {
    int peer;
    Channel channel;
  };

  bool is_over() const { return membership_.over() || requests_.abandon; }
  // Whatever there is to do; waits up to `deadline` for it.
  void step(Clock::time_point deadline);
  void guarded(const std::function<void()>& io);

  void poll(Clock::time_point deadline);
  void serve_requests();
  void serve_router();
  void serve_admission();
  void serve_monitors();
  void serve_stop_signal();
  void serve_timers();
  Clock::time_point next_timer() const;

  // io_packets.cpp
  void accept(Received& received);
  void accept_hello(const CtlHello& hello, const Received& received);
  void accept_control(int peer, const Packet& packet);
  void accept_chunk(int peer, const DataChunk& chunk, const Received& received);
  void welcomed(int peer, const CtlWelcome& welcome);
  void acknowledge(int peer, const StreamPosition& position);
  std::optional<std::string> misfit(const CtlHello& hello, const std::string& user) const;
  // Whether the process whose hello was taken is the peer's, and lives.
  bool is_alive(const Peer& peer) const;

  void open_all();
  void name_unresolved();
  void open(int peer, Channel channel);
  // By this node's own decision: says nothing about the peer.
  void reopen_later(int peer, Channel channel);
  void revive(int peer);
  void say_hello(int peer, Channel channel);
  void send_chunks(int peer);
  void send_ack(int peer);
  void send_control(int peer, const Packet& packet);
  void tell(const MembershipEvent& event);
  void act(const MembershipAction& action);
  void finish();

  Line& line(int peer, Channel channel) { return peers_[peer].lines[static_cast<std::size_t>(channel)]; }

  Turn turn_;
  zmq::context_t& context_;
  Admission admission_;
  Router router_;
  const ZmqLinkOptions& options_;
  LinkQueues& queues_;
  const std::uint64_t nonce_;
  std::vector<Peer> peers_;
  std::unordered_map<std::string, Binding> bindings_;
  Membership membership_;
  LinkQueues::Requests requests_;
  WarningLimiter warnings_;
  std::optional<CtlStatus> status_;  // to be told
  Clock::time_point now_;
  Clock::time_point heartbeat_at_;
  Clock::time_point tick_at_;
};

}  // namespace rookery
