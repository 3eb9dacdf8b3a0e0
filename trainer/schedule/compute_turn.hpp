// The turn to compute on a machine that has several stages of its cluster (machine_order.hpp). Each
// stage has a thread of its own, which trains it as if it were alone, and takes the turn for its arithmetic:
// so one of them computes at a time, in the order that the schedule wants, while messages of all are on their
// way.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "trainer/schedule/schedule.hpp"

namespace rookery {

// Any thread.
class ComputeTurn {
 public:
  // The turn, until this ends.
  class Hold {
   public:
    Hold() = default;  // of no turn
    explicit Hold(ComputeTurn& turn) : turn_(&turn) {}
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&&) = delete;
    ~Hold();

   private:
    ComputeTurn* turn_ = nullptr;
  };

  // Of machine `machine` of a cluster of `stages` stages.
  ComputeTurn(ScheduleSettings schedule, int machine, int stages);

  // For the next forward, B or W of `stage` in training step `step`, which has so many micro-batches: when
  // all that machine_order() has before it is done. Steps rise; what is done in one ends before the next
  // begins.
  Hold take(int stage, std::int64_t step, int micro_batches);
  // For anything else, as soon as nobody computes.
  Hold take_between();
  // From now on nobody waits any more: a stage of this machine has failed. The others then fail by what their
  // links tell them.
  void abandon();

 private:
  bool is_next(int stage, std::int64_t step, int micro_batches);
  void release();

  const ScheduleSettings schedule_;
  const int machine_;
  const int stages_;

  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  bool is_taken_ = false;
  bool is_abandoned_ = false;
  std::int64_t step_ = -1;  // whose order this is
  std::vector<int> order_;  // stages
  std::size_t done_ = 0;    // of the order, begun at least
};

}  // namespace rookery
