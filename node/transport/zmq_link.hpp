// The Link between machines: a node's view of one group, over the connections of its Endpoint (endpoint.hpp).
// Wire format: PROTOCOL.md; threads and ownership: docs/threads.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "node/wire/buffer_pool.hpp"
#include "node/wire/packets.hpp"
#include "trainer/link.hpp"

namespace rookery {

// Where groups have something to send to the same peer, those of smaller numbers go first.
constexpr int kPipelinePriority = 0;
constexpr int kRingPriority = 1;

// Which members of a group talk with each other, and connect.
enum class Topology : std::uint8_t {
  kMesh,  // all
  kRing,  // those of neighbouring ranks, the last and the first among them
};

struct GroupOptions {
  GroupId group = 0;                 // the same on all members; used once in a process's life
  std::string name;                  // for messages, of one with rounds: "ring 2"; empty: the pipeline
  std::vector<std::string> members;  // nodes by rank, this one among them
  Topology topology = Topology::kMesh;
  int priority = kPipelinePriority;

  std::chrono::milliseconds deadline{600'000};  // of every wait of a send, receive, flush and leave
  std::chrono::milliseconds wait_for_peers{300'000};

  // The group's own. Per peer: the largest tensor, and the bytes that may be on their way to it and wait here
  // from it. Each budget holds at least one message.
  std::uint64_t max_message_bytes = 64ULL << 20;
  std::uint64_t send_budget = 64ULL << 20;
  std::uint64_t receive_budget = 64ULL << 20;
  BufferPool buffers = BufferPool();  // for tensors on their way, of all peers
  // Whether messages of one chunk stay in the memory that they came in, which is the heap's, instead of being
  // copied to `buffers`.
  bool keeps_arrivals = false;
};

// The numbers that the last rank tells all others about the run.
struct RunStatus {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  double loss = 0;
  std::optional<double> accuracy;  // percent
};

struct Group;
class IoLoop;

// The calls of Link, join() and leave() belong to one thread, each group's to one of its own if need be; the
// rest may be called by any.
class ZmqLink final : public Link {
 public:
  // For Endpoint, which has opened the group.
  ZmqLink(std::shared_ptr<IoLoop> loop, std::shared_ptr<Group> group);
  // Fails the group for all others where neither leave() nor anything else has ended it.
  ~ZmqLink() override;

  // Waits until all members that this one talks with are here, which goes before everything else.
  // TransportError naming those who did not come.
  void join();

  std::unique_ptr<PendingTransfer> begin_send(int to_rank, const MessageKey& key,
                                              ConstTensorView tensor) override;
  std::unique_ptr<PendingTransfer> begin_receive(int from_rank, const MessageKey& key,
                                                 TensorView into) override;
  MessageBytes receive_bytes(int from_rank, const MessageKey& key, const TensorType& type) override;
  void send_bytes(int to_rank, const MessageKey& key, const TensorType& type, MessageBytes&& bytes) override;
  MessageBytes make_bytes(std::uint64_t bytes) override;
  void flush() override;

  // The orderly end: flushes, says bye, and waits until all others that this one talks with have, so that
  // nobody takes the end for a loss.
  void leave();
  // Ends the group: all other members fail with "<this node> <reason>".
  void stop(const std::string& reason);

  // The last status told by the last rank. Telling is cheap: peers get the newest ten times a second.
  void tell_status(const RunStatus& status);
  std::optional<RunStatus> heard_status() const;

  // Not by the last rank: tells it. That is lost where the connection is down.
  void tell_figures(const NodeFigures& figures);
  // By the last rank: what the other one has told since the last call.
  std::optional<NodeFigures> take_figures(int from_rank);
  std::vector<std::uint64_t> bytes_sent() const;  // of tensors, by rank; to itself none

 private:
  void check_size(const MessageKey& key, const TensorType& type) const;

  std::shared_ptr<IoLoop> loop_;
  std::shared_ptr<Group> group_;
};

}  // namespace rookery
