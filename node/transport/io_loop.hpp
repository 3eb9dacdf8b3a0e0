// The I/O of an Endpoint: owns every socket, turns packets into events of the groups' Membership and into
// messages of their LinkQueues, and keeps the streams going. One thread at a time does it, the one that has
// the turn (threads/turn.hpp): the I/O thread, or a group's thread while it would only wait for a message.
// All members but those that never change are protected by the turn, which is lent to others while whoever
// does the I/O sleeps. In five files: io_loop.cpp has sockets and timers, io_connections.cpp what connects to
// peers, io_packets.cpp what arrives, io_sending.cpp what leaves, io_groups.cpp what happens to groups.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "node/membership/membership.hpp"
#include "node/sockets/admission.hpp"
#include "node/sockets/listener.hpp"
#include "node/sockets/router.hpp"
#include "node/sockets/warning_limiter.hpp"
#include "node/transport/endpoint.hpp"
#include "node/transport/group.hpp"
#include "node/transport/local/local_channel.hpp"
#include "node/transport/peer_channel.hpp"
#include "node/transport/slow_network.hpp"
#include "node/transport/threads/descriptor_set.hpp"
#include "node/transport/threads/turn.hpp"
#include "node/transport/threads/waker.hpp"
#include "node/wire/packets.hpp"
#include "node/wire/send_order.hpp"

namespace rookery {

// Acknowledgements wait this long for company.
constexpr std::chrono::milliseconds kAckDelay{20};
constexpr std::chrono::milliseconds kFarewell{1000};  // for the last packets to leave

inline constexpr auto kEveryChannel = [] {
  std::array<Channel, kMostChannels> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Channel>(i);
  return all;
}();

class IoLoop {
 public:
  // Listens.
  IoLoop(EndpointOptions options, std::uint64_t nonce);

  std::string address() const;
  // Makes the sockets: accepts connections from here on. Before all that follows.
  void start(std::vector<EndpointPeer> peers);

  // For the I/O thread: until abandon() was called, or something went wrong, which fails what waits in the
  // queues.
  void run();
  void abandon();

  // For any thread: the group is begun by the thread that does the I/O.
  std::shared_ptr<Group> open(GroupOptions options);
  // For a group's thread: does I/O until `ready` or the deadline, unless another such thread does it: then
  // what is returned is kept until the wait is over (Turn::visit()).
  std::shared_ptr<void> drive(const std::function<bool()>& ready, Clock::time_point deadline);
  // For a group's thread: has what it asked for done, here and without waiting, or by the I/O thread where
  // that is at work.
  void serve();
  // For a group's thread: what has begun to arrive from this member in that memory goes on elsewhere, and the
  // message, if it has come to lie there, too.
  void leave_memory(Group& group, int member, const MessageKey& key, const std::byte* memory);

 private:
  // Whose connection this is, once a hello has said so.
  struct Binding {
    int peer;
    Channel channel;
  };
  // A group that a peer belongs to, and which of its members it is.
  struct SharedGroup {
    Group* group;
    int member;
    Group::Member& streams() const { return group->members[member]; }
  };
  struct ChannelState {  // of one channel to a peer and from it
    explicit ChannelState(PeerChannel made) : outgoing(std::move(made)) {}
    PeerChannel outgoing;  // on which this node sends
    bool welcomed = false;
    Clock::time_point hello_at{};  // when to say hello again
    std::optional<Clock::time_point> reopen_at;
    std::chrono::milliseconds backoff{0};
    bool lacks_descriptor = false;      // for a connection, when that was tried last
    std::string incoming;               // the peer's connection of this channel; empty: none
    std::uint32_t incoming_number = 0;  // which of the peer's connections that is
  };
  struct Peer {
    Peer(EndpointPeer given, std::vector<ChannelState> channels);
    bool has(Channel channel) const { return static_cast<std::size_t>(channel) < channels.size(); }
    bool is_welcomed() const { return std::ranges::all_of(channels, &ChannelState::welcomed); }
    // Can chunks be sent?
    bool takes_data() const {
      return std::all_of(channels.begin() + 1, channels.end(), std::mem_fn(&ChannelState::welcomed));
    }
    EndpointPeer who;
    std::string name;                        // "node_1 (0.0.0.0:8081)"
    std::vector<ChannelState> channels;      // by their number
    std::size_t next_data = 0;               // which of those for data sends the next chunk
    std::vector<SharedGroup> shared_groups;  // of groups that have not ended
    SendOrder order;                         // of their streams
    std::optional<std::uint64_t> nonce;      // of the process whose hello was taken
    bool is_proven = false;                  // that process has read our hello
    const bool is_on_this_machine;           // as its address says
    LocalSender to_local;                    // what it has here besides its channels
    std::optional<LocalReceiver> from_local;
    Clock::time_point heard{};    // from it
    Clock::time_point revived{};  // when its channels were opened anew since nothing was heard
    bool is_misfit = false;  // somebody with its name was not admitted, which says more than its refusing us
  };

  // Who does the I/O.
  enum class Driver : std::uint8_t { kIoThread, kGroupThread };

  // io_loop.cpp
  Peer make_peer(EndpointPeer who);
  // Whatever there is to do; waits up to `deadline` for it.
  void step(Clock::time_point deadline, Driver driver);
  void guarded(const std::function<void()>& io);
  // Sleeps until something has come, and takes what does not come by ZeroMQ's sockets.
  void wait(Clock::time_point until, Driver driver);
  // For whoever has done something and does not sleep now: wakes those up that have to see to it.
  void wake_sleepers();
  // What tells of all that comes: places kOfWaker to kOfTimer, one for each peer from kFirstLocal on, then
  // ZeroMQ's, the common ones first.
  std::vector<int> descriptors_now();
  // Those of a connection that this node has opened.
  std::vector<int> descriptors_of(PeerChannel& channel) const;
  // None of the sleepers has it from here on, as must be before it is closed.
  void take_out(int descriptor);
  // Those of ZeroMQ that are no peer's.
  std::vector<zmq::socket_ref> common_sockets();
  void serve_sockets();
  void serve_router();
  void serve_connectors();
  void serve_admission();
  void serve_monitors();
  void serve_timers();
  Clock::time_point next_timer() const;
  bool shares_memory() const { return options_.shares_memory && !options_.slow_network; }
  void finish();

  // io_connections.cpp
  void serve_channels(int peer);
  void serve_stalls(int peer);
  void open(int peer, Channel channel);
  // Opens the channel where it is not, on the connection that the peer has opened before if it is the one who
  // does.
  void reach(int peer, Channel channel);
  void begin_session(int peer, Channel channel);
  void close(ChannelState& channel, std::chrono::milliseconds linger = std::chrono::milliseconds(0));
  // By this node's own decision: says nothing about the peer.
  void reopen_later(int peer, Channel channel);
  void suspend_streams(int peer);
  void revive(int peer);
  void say_hello(int peer, Channel channel);

  // io_packets.cpp
  void accept(Received& received);
  // Whether a group's thread has got what it waits for.
  bool accept_local(int peer, const LocalReceiver::LocalPacket& local);
  // Until there is no more, or a group's thread has what it waits for.
  void serve_local(int peer);
  // From here on from this one; none: not at all.
  void receive_locally(int peer, std::optional<LocalReceiver> from);
  void hear(int peer);
  void accept_hello(const CtlHello& hello, const Received& received);
  void welcome(int peer, Channel channel);
  // Whether the process whose hello was taken is the peer's, and lives.
  bool is_alive(const Peer& peer) const;
  void accept_control(int peer, const Packet& packet);
  void accept_welcome(int peer, const CtlWelcome& welcome);
  void accept_heartbeat(int peer, const CtlHeartbeat& heartbeat);
  void accept_join(int peer, const CtlJoin& join);
  void accept_stop(int peer, const CtlStop& stop);
  // As accept_local().
  bool accept_chunk(int peer, const DataChunk& chunk, const Payload& payload);
  bool accept_payload(const SharedGroup& shared, const DataChunk& chunk, const Payload& payload);
  Payload to_be_read(int peer, const DataChunk& chunk) const;
  void acknowledge(const SharedGroup& shared, const StreamPosition& position);

  // io_sending.cpp
  void send(int peer, Channel channel, std::span<const std::byte> header);
  void send_control(int peer, const Packet& packet);
  void send_heartbeat(int peer);
  void send_ack(const SharedGroup& shared);
  void request_ack(int peer, GroupId group);
  void send_chunks(int peer);
  void send_row(Peer& to, std::span<const OutgoingChunk* const> row);
  // On a network that is slowed down.
  void send_due();
  Clock::time_point next_due() const;

  // io_groups.cpp
  void serve_requests();
  void serve_requests(Group& group);
  void serve_stop_signal();
  void serve_group(Group& group, bool tick);
  // Where a loss has struck: "ring 2, round 17"; empty in a run without rings.
  std::string place_of(const Group& group) const;
  void begin(Group& group);
  void retire_ended();
  void part_from(int peer);
  void keep_unread(SendStream& stream);
  void tell_end(int peer, GroupId group);
  // The packet's group; nothing where it has ended or this node has not opened it yet. TransportError where
  // the peer is no member.
  std::optional<SharedGroup> shared_group_of(int peer, GroupId group);
  void send_join(const SharedGroup& shared);
  int peer_of(const SharedGroup& shared) const { return shared.group->places[shared.member].peer; }
  void tell(Group& group, const MembershipEvent& event);
  // The same of this peer in every group.
  template <typename Event, typename... Rest>
  void tell_of(int peer, Rest... rest) {
    for (const SharedGroup& shared : peers_[peer].shared_groups)
      tell(*shared.group, Event{shared.member, rest...});
  }
  void act(Group& group, const MembershipAction& action);
  void end_run(const StopNotice& notice, const action::Fail& fail);

  ChannelState& state_of(int peer, Channel channel) {
    return peers_[peer].channels[static_cast<std::size_t>(channel)];
  }
  // Control first.
  std::span<const Channel> channels_of(int peer) const {
    return std::span(kEveryChannel).first(peers_[peer].channels.size());
  }
  std::span<const Channel> data_channels_of(int peer) const { return channels_of(peer).subspan(1); }

  const EndpointOptions options_;
  const std::uint64_t nonce_;
  Waker waker_;
  Turn turn_;
  zmq::context_t context_;
  std::optional<Listener> listener_;
  std::optional<Admission> admission_;
  std::optional<Router> router_;
  std::optional<PreciseTimer> timer_;  // where the network is slow
  std::vector<Peer> peers_;            // from start() on as many, with the same names
  std::unordered_map<std::string, Binding> bindings_;
  std::map<GroupId, std::shared_ptr<Group>> groups_;    // that have not ended
  std::map<GroupId, std::optional<StopNotice>> ended_;  // in good order: no notice
  // With chunks under way when their group failed, or their receiver was restarted: they may still be read.
  std::vector<SendStream> unread_;
  std::optional<event::RunEnded> run_ended_;  // where groups end together: how the first has failed
  WarningLimiter warnings_;
  Clock::time_point now_;
  Clock::time_point heartbeat_at_;
  Clock::time_point tick_at_;
  // ZeroMQ's descriptors tell of what comes after the last look at their sockets; nobody sleeps while one of
  // these was used and not looked at since.
  bool sockets_are_used_ = true;
  std::array<std::optional<Clock::time_point>, 2> sleeps_until_;  // by Driver
  bool has_peers_news_ = false;  // one of those that are a peer's has told of something
  // By Driver: what it sleeps on; and that this is not what there is by now.
  static constexpr std::size_t kOfWaker = 0, kOfStop = 1, kOfTimer = 2, kFirstLocal = 3;
  std::array<DescriptorSet, 2> descriptors_;
  std::array<bool, 2> misses_descriptors_{true, true};
  bool is_broken_ = false;    // something went wrong with the sockets
  bool is_finished_ = false;  // they are closed
  std::atomic<bool> is_abandoned_{false};

  // `opened_mutex_` protects what stands below it, and nothing else is locked while it is held.
  std::mutex opened_mutex_;
  std::vector<std::shared_ptr<Group>> opened_;  // by open(), and not begun yet
  std::set<GroupId> numbers_;                   // of all groups that there ever were
  bool is_closed_ = false;                      // there will be no more
};

}  // namespace rookery
