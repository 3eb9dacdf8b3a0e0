// A slower network than there is, to try one on a single machine: what a node sends leaves later.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>

#include "node/wire/stream.hpp"

namespace rookery {

struct NetworkLimits {
  std::optional<double> mbps;            // that a machine sends at most, to all others together; above 0
  std::chrono::microseconds latency{0};  // by which everything that it sends is longer on its way
  bool any() const { return mbps || latency.count() > 0; }
};

// One machine's connection, which its nodes share; any thread.
class SlowNetwork {
 public:
  explicit SlowNetwork(const NetworkLimits& limits) : limits_(limits) {}

  // When a packet of so many bytes leaves that is sent at `now`: once those before it have left, and later by
  // the latency. One of control waits for nobody, as on a connection of its own.
  Clock::time_point leaves(Clock::time_point now, std::size_t bytes, bool is_control);

 private:
  const NetworkLimits limits_;
  std::mutex mutex_;
  Clock::time_point free_{};  // when all that was sent has left
};

// Readable from the moment it is set to: finer than the milliseconds of a poll. One thread at a time.
class PreciseTimer {
 public:
  PreciseTimer();
  ~PreciseTimer();
  PreciseTimer(const PreciseTimer&) = delete;
  PreciseTimer& operator=(const PreciseTimer&) = delete;

  int descriptor() const { return descriptor_; }
  // Clock::time_point::max(): never.
  void set(Clock::time_point at);

 private:
  const int descriptor_;
};

}  // namespace rookery
