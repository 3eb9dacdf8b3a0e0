// The two ends of the stream of chunks of one group from one node to another. ZeroMQ loses messages whose
// sending succeeded when a connection is cut; so chunks are numbered, kept until they are acknowledged, and
// sent again from the first one missing (go-back-N). They may travel over several connections, and so
// overtake each other. Credit in bytes bounds what the receiver holds. No sockets and no locks here: each end
// belongs to one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "node/wire/buffer_pool.hpp"
#include "node/wire/packets.hpp"

namespace rookery {

using Clock = std::chrono::steady_clock;

struct OutgoingMessage {
  MessageKey key;
  TensorType type;
  SharedBytes bytes;
};

// Bytes that the whole message counts against budgets and credit.
std::uint64_t message_cost(std::uint64_t bytes, std::size_t chunk_bytes);

struct OutgoingChunk {
  std::vector<std::byte> header;
  SharedBytes bytes;  // keeps the payload alive
  std::span<const std::byte> payload;
  std::uint64_t end = 0;  // cost of the stream up to and including this chunk
};

class SendStream {
 public:
  explicit SendStream(std::size_t chunk_bytes, GroupId group = 0)
      : chunk_bytes_(chunk_bytes), group_(group) {}

  // Cuts the message into chunks and queues them.
  void push(const OutgoingMessage& message);
  // Whether next() has a chunk.
  bool can_send() const;
  // The next chunk that may be sent now, or nullptr. It stays until it is acknowledged.
  const OutgoingChunk* next(Clock::time_point now);
  // The receiver has this; returns the cost of what it acknowledges for the first time.
  // TransportError when it claims more than was sent.
  std::uint64_t acknowledge(const StreamPosition& position, Clock::time_point now);
  // The connection is gone: nothing more may be sent until resume().
  void suspend() { suspended_ = true; }
  // A new connection stands: goes on from what the receiver has.
  std::uint64_t resume(const StreamPosition& position, Clock::time_point now);

  bool empty() const { return chunks_.empty(); }
  bool is_suspended() const { return suspended_; }
  // Cost of what was sent and is not acknowledged.
  std::uint64_t under_way() const { return sent_ == 0 ? 0 : chunks_[sent_ - 1].end - first_begin_; }
  // Since when chunks have been under way without any being acknowledged.
  std::optional<Clock::time_point> stalled_since() const;

 private:
  std::size_t chunk_bytes_;
  GroupId group_;
  std::deque<OutgoingChunk> chunks_;  // not acknowledged, in order
  std::uint64_t first_ = 0;           // sequence of chunks_.front()
  std::uint64_t first_begin_ = 0;     // cost of the stream before it
  std::size_t sent_ = 0;              // how many of chunks_ are under way
  std::uint64_t most_sent_ = 0;       // sequence after the last one ever sent
  std::uint64_t end_ = 0;             // cost of the stream as pushed
  std::uint64_t credit_ = 0;
  bool suspended_ = true;
  Clock::time_point last_progress_{};
};

// The bytes of a chunk where they came to: a frame, or the memory of a process beside this one.
struct Payload {
  std::size_t size = 0;
  // Copies them. TransportError where they are no longer there.
  std::function<void(std::byte* into)> copy;
  // The memory that they lie in, which may be kept; none where they can only be copied.
  std::function<SharedBytes()> keep;
  bool is_aligned = false;  // that memory, as elements of every type must be

  // `keep` gives the memory that `bytes` lie in.
  static Payload of(std::span<const std::byte> bytes, std::function<SharedBytes()> keep);
};

struct IncomingMessage {
  MessageKey key;
  TensorType type;
  SharedBytes bytes;
  std::uint64_t cost = 0;
};

class ReceiveStream {
 public:
  // Holds at most `budget` of cost that release() has not given back, chunks that have overtaken others
  // included; `budget` is at least the cost of one message of `max_message_bytes`. Messages lie in memory of
  // `buffers`; with `keeps_arrivals` those of one chunk stay in the memory that they came in, if elements of
  // any type may lie there.
  ReceiveStream(std::uint64_t budget, std::uint64_t max_message_bytes, BufferPool buffers = BufferPool(),
                bool keeps_arrivals = false)
      : max_message_bytes_(max_message_bytes),
        buffers_(std::move(buffers)),
        keeps_arrivals_(keeps_arrivals),
        granted_(budget) {}

  enum class Verdict : std::uint8_t {
    kAccepted,   // and those that were held for it
    kHeld,       // it has overtaken others
    kDuplicate,  // dropped
  };
  // Takes a chunk; messages that it completes are in take_message(). TransportError when the chunk, or one
  // that was held for it, contradicts its message, the budget or the credit, or its bytes are gone; that one
  // is dropped. A message that begins with it comes to lie in `memory`, if some is given, whose owner keeps
  // it until the message is complete or leave_memory() was called.
  Verdict offer(const DataChunk& chunk, const Payload& payload, std::byte* memory = nullptr);
  // Whether a message that has begun to arrive lies in this memory; it goes on in that of `buffers`.
  bool leave_memory(const std::byte* memory);
  // The next of them, in the order of the stream.
  std::optional<IncomingMessage> take_message();
  // A message has been used: its cost may be sent again.
  void release(std::uint64_t cost) { granted_ += cost; }

  StreamPosition position() const { return {received_, granted_}; }
  // The bytes that the sender does not know of yet, as told by announced().
  std::uint64_t unannounced_bytes() const { return arrived_ - announced_arrived_; }
  std::uint64_t unannounced_credit() const { return granted_ - announced_credit_; }
  void announced();

 private:
  struct Held {
    DataChunk chunk;
    SharedBytes bytes;
    std::size_t size;
  };
  void check(const DataChunk& chunk, std::size_t payload) const;
  void check_credit(const DataChunk& chunk, std::size_t payload) const;
  void accept(const DataChunk& chunk, const Payload& payload, std::byte* memory);
  Verdict hold(const DataChunk& chunk, const Payload& payload);

  std::uint64_t max_message_bytes_;
  BufferPool buffers_;
  bool keeps_arrivals_;
  std::uint64_t granted_;
  std::uint64_t received_ = 0;
  std::uint64_t arrived_ = 0;  // cost of all chunks received
  std::uint64_t announced_arrived_ = 0;
  std::uint64_t announced_credit_ = 0;
  std::optional<IncomingMessage> partial_;
  std::uint64_t filled_ = 0;  // bytes of partial_; 0 where there is none
  std::deque<IncomingMessage> complete_;
  std::map<std::uint64_t, Held> held_;  // by sequence
  std::uint64_t held_cost_ = 0;
};

}  // namespace rookery
