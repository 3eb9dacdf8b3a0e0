// The Link between machines: one stage's connections to all other stages of its cluster, over
// ZeroMQ. Wire format, threads and ownership: PROTOCOL.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "node/sockets/plan_key.hpp"
#include "node/wire/buffer_pool.hpp"
#include "trainer/link.hpp"

namespace rookery {

struct ZmqLinkOptions {
  std::string node;  // own name, "node_0"
  int stage = 0;
  std::string address;  // to listen at, "0.0.0.0:8080"; port 0: any free one
  PlanKey key;          // peers with another are refused

  std::chrono::milliseconds deadline{600'000};  // of every send, receive, flush and leave
  std::chrono::milliseconds wait_for_peers{300'000};
  std::chrono::milliseconds heartbeat{500};
  std::chrono::milliseconds peer_timeout{10'000};  // a peer of which nothing was heard for longer is lost
  // A connection that the peer or the network closed is back by then, or the peer is lost before
  // peer_timeout.
  std::chrono::milliseconds reconnect_grace{10'000};

  // Per peer: the largest tensor, and the bytes that may be on their way to it and wait here from it.
  // Each budget holds at least one message.
  std::uint64_t max_message_bytes = 64ULL << 20;
  std::uint64_t send_budget = 64ULL << 20;
  std::uint64_t receive_budget = 64ULL << 20;
  BufferPool buffers;  // for tensors on their way, of all peers

  // Becomes readable when this process is asked to stop; stop_signal() then says by what.
  int stop_descriptor = -1;
  // Told who is missing while waiting for peers; called by a thread that does the I/O. Default: the log.
  std::function<void(const std::string&)> on_waiting;
};

struct ZmqPeer {
  int stage = 0;
  std::string node;
  std::string address;
};

// The numbers that the last stage tells all others about the run.
struct RunStatus {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  double loss = 0;
  std::optional<double> accuracy;  // percent
};

// send(), receive(), flush() and leave() belong to one thread, the compute thread; the rest may be
// called by any.
class ZmqLink final : public Link {
 public:
  // Listens; TransportError when that cannot be, naming the process that holds a taken port.
  explicit ZmqLink(ZmqLinkOptions options);
  // Peers that were not told by leave() or stop() find this node lost.
  ~ZmqLink() override;

  // Where it listens, with the port that was bound.
  std::string address() const;
  // Connects to all others and waits until they are here. TransportError naming those who did not come.
  void join(const std::vector<ZmqPeer>& peers);

  void send(int to_stage, const MessageKey& key, ConstTensorView tensor) override;
  void receive(int from_stage, const MessageKey& key, TensorView into) override;
  void flush() override;

  // The orderly end: flushes, says bye, and waits until all others have, so that nobody takes the end
  // for a loss.
  void leave();
  // Ends the run of the whole cluster: all others fail with "<this node> <reason>".
  void stop(const std::string& reason);

  // The last status told by the last stage. Telling is cheap: peers get the newest ten times a second.
  void tell_status(const RunStatus& status);
  std::optional<RunStatus> heard_status() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rookery
