// Which of a peer's streams sends its next chunk, when several groups have some for it. Those of the most
// urgent groups go first, and the others fill what they leave: at most kBackgroundWindow of them waits in the
// connection's buffers, so that an urgent chunk never stands behind more. One in kShare chunks goes to a
// group that others would keep from sending at all. No sockets and no locks here: it belongs to one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "node/wire/stream.hpp"

namespace rookery {

class SendOrder {
 public:
  static constexpr std::uint64_t kBackgroundWindow = 2U << 20;
  static constexpr int kShare = 16;

  // Streams of smaller `priority` go first, those of the same one take turns. `stream` outlives its place
  // here.
  void add(int priority, SendStream& stream);
  void remove(const SendStream& stream);

  // The next chunk that may be sent now, or nullptr. It stays with its stream until it is acknowledged.
  const OutgoingChunk* next(Clock::time_point now);

 private:
  struct Entry {
    int priority;
    SendStream* stream;
    int passed_over = 0;  // chunks that others sent while it had one
  };
  Entry* choose();

  std::vector<Entry> entries_;  // by priority
};

}  // namespace rookery
