// A group's thread and the I/O of its endpoint hand messages to each other through bounded queues under one
// mutex, a waker for the I/O, and a condition for the thread. Peers are the other members of the group.
//
// `mutex_` protects every member that is not const. It is held for no longer than it takes to move a message
// in or out, or to copy one that has to leave its place; nothing else than the BufferPool, and what a
// Meanwhile has returned, is locked while it is. Calls of the group's thread: wait_begun() first, wait_left()
// last.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "node/membership/membership.hpp"
#include "node/transport/threads/waker.hpp"
#include "node/wire/packets.hpp"
#include "node/wire/stream.hpp"

namespace rookery {

class LinkQueues {
 public:
  // `waker` outlives it. `group` and `peers` are names for people, that of the group "ring 2" or empty.
  // `send_budget` bounds the cost of what is on its way to one peer; taking `release_step` of cost from one
  // peer wakes the I/O, so that it grants new credit.
  LinkQueues(Waker& waker, const std::string& group, std::vector<std::string> peers,
             std::uint64_t send_budget, std::uint64_t release_step, std::size_t chunk_bytes,
             std::chrono::milliseconds deadline);

  // ---- for the group's thread; all throw TransportError, Interrupted after an own signal ----

  // The work that the thread does in place of waiting, for as long as not `ready` and not past the deadline:
  // the I/O. Where it returns before that, what it returns is kept until the wait is over.
  using Meanwhile =
      std::function<std::shared_ptr<void>(const std::function<bool()>& ready, Clock::time_point deadline)>;

  // Until all peers are here; membership bounds the wait.
  void wait_begun();
  // Waits for room for a message of `bytes` to the peer.
  void wait_for_room(int peer, const MessageKey& key, std::uint64_t bytes, const Meanwhile& meanwhile);
  bool has_room(int peer, const MessageKey& key, std::uint64_t bytes);
  // There is room for it; wakes nobody.
  void put(int peer, OutgoingMessage message);
  // Waits until the message is here.
  void wait_for(int peer, const MessageKey& key, const Meanwhile& meanwhile);
  // Around a wait: where the message may come to lie, if it is of that type and begins to arrive meanwhile.
  void offer_memory(int peer, const MessageKey& key, TensorView into);
  // Whether it has begun to arrive there and is not complete: then the I/O has to leave that memory
  // (ReceiveStream::leave_memory()), as it has to where the wait has failed and the message may be here.
  bool withdraw_memory();
  // Nothing while it is not here.
  std::optional<IncomingMessage> take(int peer, const MessageKey& key);
  void wait_flushed(const Meanwhile& meanwhile);
  // Until all peers have said bye.
  void wait_left(const Meanwhile& meanwhile);

  // ---- for any thread ----

  void want_stop(StopNotice notice);
  void tell_status(const CtlStatus& status);
  std::optional<CtlStatus> heard_status() const;
  void tell_figures(const CtlFigures& figures);
  // What the peer has told since the last call.
  std::optional<CtlFigures> take_figures(int peer);
  std::vector<std::uint64_t> bytes_sent() const;  // of tensors, by peer

  // ---- for the thread that does the I/O ----

  // All that the group's thread has asked for since the last time.
  struct Requests {
    std::vector<std::vector<OutgoingMessage>> messages;  // by peer
    std::vector<std::uint64_t> released;                 // cost of messages used, by peer
    bool flush = false;
    bool leave = false;
    std::optional<StopNotice> stop;
    std::optional<CtlStatus> status;  // news for the peers
    std::optional<CtlFigures> figures;
    std::uint64_t progress = 0;
    int waiting_for = -1;  // the peer
  };
  void collect(Requests& requests);

  void begin();
  // Where a message that begins to arrive may lie; nullptr: nowhere in particular.
  std::byte* memory_for(int peer, const MessageKey& key, const TensorType& type);
  // Whether the group's thread waits for it. TransportError when the key is there already.
  bool deliver(int peer, IncomingMessage message);
  // A message that lies in that memory and was not taken has memory of its own from then on.
  void leave_memory(int peer, const MessageKey& key, const std::byte* memory, const BufferPool& buffers);
  void acknowledged(int peer, std::uint64_t cost);
  void forget(int peer);
  void depart(int peer);
  void end();
  void fail(const std::string& message, int signal);
  void hear_status(const CtlStatus& status);
  void hear_figures(int peer, const CtlFigures& figures);
  // Takes from a peer's heartbeat what its thread is doing; names for people.
  void hear_progress(int peer, std::uint64_t progress, const std::string& waiting_for);

 private:
  struct Peer {
    std::string name;
    std::vector<OutgoingMessage> outbox;
    std::uint64_t outgoing = 0;  // cost of what is not acknowledged
    std::uint64_t sent = 0;      // bytes of tensors
    std::map<MessageKey, IncomingMessage> inbox;
    std::uint64_t released = 0;  // cost of what was taken since the last collect()
    bool departed = false;
    std::uint64_t progress = 0;
    Clock::time_point progressed{};
    std::string waiting_for;  // empty: it computes
    std::optional<CtlFigures> figures;
  };
  struct OfferedMemory {
    int peer;
    MessageKey key;
    TensorView into;
    bool is_in_use = false;  // a message has begun to arrive there
  };
  using Lock = std::unique_lock<std::mutex>;

  // Waits for `peer` (-1: for all) and the message `key` (if any) until `ready` or failed; TransportError
  // of timed_out() at the deadline.
  template <typename Ready, typename TimedOut>
  void wait(Lock& lock, const Meanwhile& meanwhile, int peer, const MessageKey* key, Ready ready,
            TimedOut timed_out);
  void throw_failure(const std::string& doing) const;
  bool is_room(const Peer& peer, std::uint64_t cost) const;
  std::string describe(const Peer& peer) const;

  Waker& waker_;
  const std::string place_;  // " in ring 2"
  const std::uint64_t send_budget_;
  const std::uint64_t release_step_;
  const std::size_t chunk_bytes_;
  const std::chrono::milliseconds deadline_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  bool begun_ = false;
  bool ended_ = false;
  bool wants_flush_ = false;
  bool wants_leave_ = false;
  int waiting_for_ = -1;                 // the peer that the thread waits for
  const MessageKey* awaited_ = nullptr;  // and the message
  std::optional<OfferedMemory> offered_;
  std::uint64_t progress_ = 0;
  std::optional<StopNotice> wants_stop_;
  std::optional<CtlStatus> status_out_;
  std::optional<CtlStatus> status_in_;
  std::optional<CtlFigures> figures_out_;
  std::optional<std::string> failure_;
  int failure_signal_ = 0;
};

}  // namespace rookery
