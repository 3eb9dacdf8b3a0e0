#include "trainer/checkpoint/checkpoint_schedule.hpp"

#include <algorithm>
#include <utility>

namespace rookery {
namespace {

// For a checkpoint. Where steps become slower, it is late by this part of the interval times how much slower.
constexpr double kLeastDecisions = 16;

MessageKey agreement(std::int64_t step, const std::string& what) {
  return {.kind = MessageKind::kAgreement, .step = step, .edge = what};
}

}  // namespace

std::int64_t told_by_root(Link& link, int stage, int stages, std::int64_t step, const std::string& what,
                          std::int64_t number) {
  const MessageKey key = agreement(step, what);
  if (stage != 0) return static_cast<std::int64_t>(receive_number(link, 0, key));
  for (int to = 1; to < stages; ++to) send_number(link, to, key, static_cast<double>(number));
  return number;
}

std::int64_t least_of_all(Link& link, int stage, int stages, std::int64_t step, const std::string& what,
                          std::int64_t number) {
  const MessageKey key = agreement(step, what);
  if (stage != 0) {
    send_number(link, 0, key, static_cast<double>(number));
  } else {
    for (int from = 1; from < stages; ++from)
      number = std::min(number, static_cast<std::int64_t>(receive_number(link, from, key)));
  }
  return told_by_root(link, stage, stages, step, what, number);
}

CheckpointSchedule::CheckpointSchedule(CheckpointInterval interval, Link& link, int stage, int stages,
                                       std::int64_t first_step, std::function<Clock::time_point()> now)
    : interval_(interval),
      link_(link),
      stage_(stage),
      stages_(stages),
      now_(std::move(now)),
      last_step_(first_step),
      last_time_(now_()),
      decision_time_(last_time_),
      decision_step_(first_step) {}

bool CheckpointSchedule::is_due(const RunState& run) {
  switch (interval_.unit) {
    case CheckpointInterval::Unit::kSteps:
      return run.step / interval_.count > std::exchange(last_step_, run.step) / interval_.count;
    case CheckpointInterval::Unit::kEpochs:
      return run.samples == 0 && run.epoch % interval_.count == 0;
    case CheckpointInterval::Unit::kSeconds:
      return is_due_by_time(run);
  }
  return false;
}

bool CheckpointSchedule::is_due_by_time(const RunState& run) {
  if (run.step < next_decision_) return false;
  bool is_due = false;
  std::int64_t next = 0;
  if (stage_ == 0) {
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
  next_decision_ = told_by_root(link_, stage_, stages_, run.step, "next decision", next);
  return told_by_root(link_, stage_, stages_, run.step, "checkpoint", is_due ? 1 : 0) != 0;
}

}  // namespace rookery
