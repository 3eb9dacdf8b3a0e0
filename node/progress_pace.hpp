// A pace says which moments of a run are told, where each of them takes a line that stays. Both are told the
// time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "trainer/progress/run_log.hpp"

namespace rookery {

using PaceTime = std::chrono::steady_clock::time_point;

// For people: every tenth of the run, and in long ones often enough to see that it goes on. The last step is
// left to whoever tells the end, which knows the loss and accuracy that come after it.
class LinePace {
 public:
  static constexpr std::chrono::seconds kLongest{30};  // from one line to the next

  // Whether a line is due now.
  bool is_due(const Progress& progress, PaceTime now);
  // The same where nothing new has come: only because of the time.
  bool is_overdue(PaceTime now) const { return told_ && now - *told_ >= kLongest; }
  // A line of any kind has been told.
  void note(PaceTime now) { told_ = now; }

 private:
  std::int64_t tenth_ = 0;
  std::optional<PaceTime> told_;
};

// For programs: the first step, the last, and between them one in `interval` at most.
class EventPace {
 public:
  explicit EventPace(std::chrono::steady_clock::duration interval) : interval_(interval) {}

  bool is_due(const Progress& progress, PaceTime now);

 private:
  std::chrono::steady_clock::duration interval_;
  std::optional<PaceTime> told_;
};

}  // namespace rookery
