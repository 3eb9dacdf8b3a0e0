// Says between which steps checkpoints are written, to all stages alike.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "trainer/agreement.hpp"
#include "trainer/progress/run_state.hpp"
#include "trainer/settings/checkpoint_interval.hpp"

namespace rookery {

// One thread. Steps and epochs are counted by every stage. Of seconds the Root's clock decides, that of
// cluster 0, and it tells the others; with each decision it tells at which step the next comes, as far as it
// can foresee: some twenty decisions for a checkpoint, however short the steps.
class CheckpointSchedule {
 public:
  using Clock = std::chrono::steady_clock;
  // `first` is where the run begins, `now` the clock.
  CheckpointSchedule(CheckpointInterval interval, Agreement agreement, const RunState& first,
                     std::function<Clock::time_point()> now = Clock::now);

  // Asked by every stage between the same steps, which rise; the answer is the same on all.
  bool is_due(const RunState& run);

 private:
  bool is_due_by_time(const RunState& run);

  const CheckpointInterval interval_;
  Agreement agreement_;
  const std::function<Clock::time_point()> now_;
  std::int64_t last_step_, last_epoch_;  // that were asked for
  std::int64_t next_decision_ = 0;
  // The Root's.
  Clock::time_point last_time_;      // of a checkpoint, or the beginning
  Clock::time_point decision_time_;  // the last one, and its step
  std::int64_t decision_step_;
};

}  // namespace rookery
