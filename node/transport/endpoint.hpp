// A process's one presence on the network: sockets, peers, their hellos and heartbeats. It serves groups of
// nodes, each of which has a ZmqLink (zmq_link.hpp): two groups with the same peer share its connections.
// Wire format: PROTOCOL.md; threads and ownership: docs/threads.md.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "node/sockets/plan_key.hpp"
#include "node/transport/slow_network.hpp"
#include "node/transport/zmq_link.hpp"

namespace rookery {

struct EndpointOptions {
  std::string node;     // own name, "node_0"
  std::string address;  // to listen at, "0.0.0.0:8080"; port 0: any free one
  // Whether others can open connections to this node. Where they cannot it does not listen, and opens all
  // itself.
  bool reachable = true;
  PlanKey key;  // peers with another are refused

  std::chrono::milliseconds heartbeat{500};
  std::chrono::milliseconds peer_timeout{10'000};  // a peer of which nothing was heard for longer is lost
  // A connection that the peer or the network closed is back by then, or the peer is lost before
  // peer_timeout.
  std::chrono::milliseconds reconnect_grace{10'000};

  // Whether its groups are one run's: what ends one of them before its time ends them all, and whoever is in
  // any of them hears whose fault it was.
  bool groups_end_together = false;

  // For trying a slower network than there is; null: as fast as it is.
  std::shared_ptr<SlowNetwork> slow_network;
  // Whether peers on this machine may read what it sends from its memory, and it from theirs
  // (local/local_channel.hpp); not where the network is slow.
  bool shares_memory = true;

  // Becomes readable when this process is asked to stop, which ends all groups; stop_signal() then says by
  // what.
  int stop_descriptor = -1;
  // Told who is missing while waiting for peers; called by a thread that does the I/O. Default: the log.
  std::function<void(const std::string&)> on_waiting;
};

// A node of the same plan that shares a group with this one.
struct EndpointPeer {
  std::string node;
  std::string address;
  bool reachable = true;  // whether this node can open connections to it; otherwise it waits for the peer's
  // For data, in each direction; the same on both sides, kMostDataChannels at most. More than one carry what
  // one does not: where bandwidth times round trip is more than its buffers.
  int connections = 1;
  bool on_same_machine = false;  // a slow network is not between them
};

// One thread, but for what its links say themselves.
class Endpoint {
 public:
  // Listens; TransportError when that cannot be, naming the process that holds a taken port.
  explicit Endpoint(EndpointOptions options);
  // Without a word: peers find this node lost in groups that have not ended, and its own links fail.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Where it listens, with the port that was bound.
  std::string address() const;

  // Once, before open(): all nodes that it will ever share a group with. ConfigError where neither side of a
  // pair can be reached.
  void start(std::vector<EndpointPeer> peers);
  // Begins to gather a group, all of whose other members are peers; ZmqLink::join() waits for them. Several
  // groups may be opened, in any order and at any time.
  std::unique_ptr<ZmqLink> open(GroupOptions options);

 private:
  std::shared_ptr<IoLoop> loop_;
  std::jthread thread_;  // ends first
};

}  // namespace rookery
