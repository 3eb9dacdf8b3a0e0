#include "trainer/checkpoint/checkpoint_schedule.hpp"

#include <algorithm>
#include <utility>

namespace rookery {
namespace {

// For a checkpoint. Where steps become slower, it is late by this part of the interval times how much slower.
constexpr double kLeastDecisions = 16;

}  // namespace

CheckpointSchedule::CheckpointSchedule(CheckpointInterval interval, Agreement agreement,
                                       const RunState& first, std::function<Clock::time_point()> now)
    : interval_(interval),
      agreement_(agreement),
      now_(std::move(now)),
      last_step_(first.step),
      last_epoch_(first.epoch),
      last_time_(now_()),
      decision_time_(last_time_),
      decision_step_(first.step) {}

bool CheckpointSchedule::is_due(const RunState& run) {
  switch (interval_.unit) {
    case CheckpointInterval::Unit::kSteps:
      return run.step / interval_.count > std::exchange(last_step_, run.step) / interval_.count;
    case CheckpointInterval::Unit::kEpochs:
      return run.epoch / interval_.count > std::exchange(last_epoch_, run.epoch) / interval_.count;
    case CheckpointInterval::Unit::kSeconds:
      return is_due_by_time(run);
  }
  return false;
}

bool CheckpointSchedule::is_due_by_time(const RunState& run) {
  if (run.step < next_decision_) return false;
  bool is_due = false;
  std::int64_t next = 0;
  if (agreement_.stage() == 0) {
    const Clock::time_point now = now_();
    const std::chrono::seconds interval(interval_.count);
    is_due = now - last_time_ >= interval;
    if (is_due) last_time_ = now;
    const auto left = std::chrono::duration<double>(last_time_ + interval - now).count();
    const auto steps = static_cast<double>(std::max<std::int64_t>(1, run.step - decision_step_));
    const double step_seconds = std::chrono::duration<double>(now - decision_time_).count() / steps;
    const double seconds_ahead = std::min(left / 2, static_cast<double>(interval_.count) / kLeastDecisions);
    const double ahead = step_seconds > 0 ? seconds_ahead / step_seconds : 1;
    next = run.step + static_cast<std::int64_t>(std::clamp(ahead, 1.0, 1e6));
    decision_time_ = now;
    decision_step_ = run.step;
  }
  next_decision_ = agreement_.told_by_root(run.step, "next decision", next);
  return agreement_.told_by_root(run.step, "checkpoint", is_due ? 1 : 0) != 0;
}

}  // namespace rookery
