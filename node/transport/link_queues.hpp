// The compute thread and the I/O of a ZmqLink hand messages to each other through bounded queues under one
// mutex, an eventfd for the I/O, and a condition for the compute thread.
//
// `mutex_` protects every member that is not const. It is held for no longer than it takes to move a message
// in or out, and nothing else is locked while it is. Calls of the compute thread: wait_begun() first,
// wait_left() last.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "node/membership/membership.hpp"
#include "node/wire/packets.hpp"
#include "node/wire/stream.hpp"

namespace rookery {

class LinkQueues {
 public:
  // `peers` are names for people. `send_budget` bounds the cost of what is on its way to one peer;
  // taking `release_step` of cost from one peer wakes the I/O, so that it grants new credit.
  LinkQueues(std::vector<std::string> peers, std::uint64_t send_budget, std::uint64_t release_step,
             std::size_t chunk_bytes, std::chrono::milliseconds deadline);
  ~LinkQueues();
  LinkQueues(const LinkQueues&) = delete;
  LinkQueues& operator=(const LinkQueues&) = delete;

  // ---- for the compute thread; all throw TransportError, Interrupted after an own signal ----

  // The work that the thread does in place of waiting, for as long as not `ready` and not past the deadline:
  // the I/O.
  using Meanwhile = std::function<void(const std::function<bool()>& ready, Clock::time_point deadline)>;

  // Until all peers are here; membership bounds the wait.
  void wait_begun();
  // Once there is room for it; wakes nobody.
  void put(int peer, OutgoingMessage message, const Meanwhile& meanwhile);
  IncomingMessage take(int peer, const MessageKey& key, const Meanwhile& meanwhile);
  void wait_flushed(const Meanwhile& meanwhile);
  // Until all peers have said bye.
  void wait_left(const Meanwhile& meanwhile);

  // ---- for any thread ----

  // Makes wake_descriptor() readable.
  void wake_up();
  void want_stop(StopNotice notice);
  // The I/O thread shall end without a word.
  void abandon();
  void tell_status(const CtlStatus& status);
  std::optional<CtlStatus> heard_status() const;
  std::optional<std::string> failure() const;

  // ---- for the thread that does the I/O ----

  // Readable when there are requests.
  int wake_descriptor() const { return wake_; }

  // All that the compute thread has asked for since the last time.
  struct Requests {
    std::vector<std::vector<OutgoingMessage>> messages;  // by peer
    std::vector<std::uint64_t> released;                 // cost of messages used, by peer
    bool flush = false;
    bool leave = false;
    bool abandon = false;
    std::optional<StopNotice> stop;
    std::optional<CtlStatus> status;  // news for the peers
    std::uint64_t progress = 0;
    int waiting_for = -1;
  };
  void collect(Requests& requests);

  void begin();
  void deliver(int peer, IncomingMessage message);  // TransportError when the key is there already
  void acknowledged(int peer, std::uint64_t cost);
  void forget(int peer);
  void depart(int peer);
  void end();
  void fail(const std::string& message, int signal);
  void hear_status(const CtlStatus& status);
  // Takes from a peer's heartbeat what its training thread is doing; stage names for people.
  void hear_progress(int peer, std::uint64_t progress, const std::string& waiting_for);

 private:
  struct Peer {
    std::string name;
    std::vector<OutgoingMessage> outbox;
    std::uint64_t outgoing = 0;  // cost of what is not acknowledged
    std::map<MessageKey, IncomingMessage> inbox;
    std::uint64_t released = 0;  // cost of what was taken since the last collect()
    bool departed = false;
    std::uint64_t progress = 0;
    Clock::time_point progressed{};
    std::string waiting_for;  // empty: it computes
  };
  using Lock = std::unique_lock<std::mutex>;

  // Waits for `peer` (-1: for all) and the message `key` (if any) until `ready` or failed; TransportError
  // of timed_out() at the deadline.
  template <typename Ready, typename TimedOut>
  void wait(Lock& lock, const Meanwhile& meanwhile, int peer, const MessageKey* key, Ready ready,
            TimedOut timed_out);
  void throw_failure(const std::string& doing) const;
  std::string describe(const Peer& peer) const;
  void wake();  // mutex_ is held

  const std::uint64_t send_budget_;
  const std::uint64_t release_step_;
  const std::size_t chunk_bytes_;
  const std::chrono::milliseconds deadline_;
  const int wake_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  bool begun_ = false;
  bool ended_ = false;
  bool wants_flush_ = false;
  bool wants_leave_ = false;
  bool abandoned_ = false;
  bool wake_pending_ = false;
  int waiting_for_ = -1;                 // the peer that the compute thread waits for
  const MessageKey* awaited_ = nullptr;  // and the message
  std::uint64_t progress_ = 0;
  std::optional<StopNotice> wants_stop_;
  std::optional<CtlStatus> status_out_;
  std::optional<CtlStatus> status_in_;
  std::optional<std::string> failure_;
  int failure_signal_ = 0;
};

}  // namespace rookery
