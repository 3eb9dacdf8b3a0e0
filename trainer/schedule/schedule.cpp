#include "trainer/schedule/schedule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/base/check.hpp"
#include "models/base/error.hpp"

namespace rookery {
namespace {

constexpr const char* kSynchronous = "1f1b";
constexpr const char* kAsynchronous = "async";

}  // namespace

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names{kSynchronous, kAsynchronous};
  return names;
}

bool is_synchronous(const ScheduleSettings& settings) {
  if (settings.name == kSynchronous) return true;
  if (std::ranges::find(schedule_names(), settings.name) == schedule_names().end()) {
    throw ConfigError(fmt::format("schedule: there is no '{}'; there is: {}", settings.name,
                                  fmt::join(schedule_names(), ", ")));
  }
  return false;
}

Schedule::Schedule(const ScheduleSettings& settings, int stage, int stages, std::int64_t batches,
                   int micro_batches)
    : is_synchronous_(is_synchronous(settings)),
      ahead_(in_flight(settings, stage, stages, micro_batches) - 1),
      micro_batches_(micro_batches),
      all_(batches * micro_batches) {
  ROOKERY_CHECK(batches >= 1, "{} batches", batches);
  ROOKERY_CHECK(is_synchronous_ || micro_batches == 1, "{} micro-batches of an asynchronous batch",
                micro_batches);
}

bool Schedule::may_run_ahead() const {
  if (forward_ == all_ || forward_ - backward_ > ahead_) return false;
  return !is_synchronous_ || forward_ / micro_batches_ == backward_ / micro_batches_;
}

// W follows its B at once: the last stages of the pipeline have nothing to win from a delay, and
// every stage frees the micro-batch's memory soonest.
std::optional<Action> Schedule::next() {
  const auto action = [&](ActionKind kind, std::int64_t micro_batch) {
    return Action{kind, micro_batch / micro_batches_, static_cast<int>(micro_batch % micro_batches_)};
  };
  if (!pending_) {
    if (may_run_ahead()) return action(ActionKind::kForward, forward_++);
    if (backward_ == all_) return std::nullopt;
    pending_ = ActionKind::kBackwardWeights;
    return action(ActionKind::kBackwardInputs, backward_);
  }
  const Action made = action(*pending_, backward_);
  const bool ends_batch = made.micro_batch + 1 == micro_batches_;
  if (made.kind == ActionKind::kBackwardWeights && ends_batch) {
    pending_ = ActionKind::kUpdate;
  } else {
    pending_.reset();
    ++backward_;
  }
  return made;
}

std::vector<Action> actions(Schedule schedule) {
  std::vector<Action> all;
  while (const std::optional<Action> action = schedule.next()) all.push_back(*action);
  return all;
}

std::string to_string(const std::vector<Action>& actions, int micro_batches) {
  std::string text;
  for (const Action& action : actions) {
    const bool is_update = action.kind == ActionKind::kUpdate;
    if (!text.empty()) text += ' ';
    text += static_cast<char>(action.kind);
    text += std::to_string(is_update ? action.batch : action.batch * micro_batches + action.micro_batch);
  }
  return text;
}

int in_flight(const ScheduleSettings& settings, int stage, int stages, int micro_batches) {
  ROOKERY_CHECK(0 <= stage && stage < stages, "stage {} of {}", stage, stages);
  ROOKERY_CHECK(micro_batches >= 1, "{} micro-batches", micro_batches);
  if (is_synchronous(settings)) return std::min(micro_batches, stages - stage);
  return 1 + staleness(settings, stage, stages);
}

int staleness(const ScheduleSettings& settings, int stage, int stages) {
  const int ahead = stages - 1 - stage;
  if (is_synchronous(settings)) return 0;
  return std::min(ahead, settings.max_staleness.value_or(ahead));
}

}  // namespace rookery
