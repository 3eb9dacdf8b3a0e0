#include "trainer/schedule/schedule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/base/check.hpp"
#include "models/base/error.hpp"

namespace rookery {
namespace {

// W follows its B at once: the last stages of the pipeline have nothing to win from a delay, and
// every stage frees the micro-batch's memory soonest.
void append_backward(Schedule& schedule, int micro_batch) {
  schedule.push_back({ActionKind::kBackwardInputs, micro_batch});
  schedule.push_back({ActionKind::kBackwardWeights, micro_batch});
}

Schedule one_forward_one_backward(int stage, int stages, int micro_batches) {
  const int ahead = std::min(micro_batches, stages - 1 - stage);
  Schedule schedule;
  schedule.reserve(3 * static_cast<std::size_t>(micro_batches));
  for (int i = 0; i < ahead; ++i) schedule.push_back({ActionKind::kForward, i});
  for (int i = ahead; i < micro_batches; ++i) {
    schedule.push_back({ActionKind::kForward, i});
    append_backward(schedule, i - ahead);
  }
  for (int i = micro_batches - ahead; i < micro_batches; ++i) append_backward(schedule, i);
  return schedule;
}

}  // namespace

Schedule make_schedule(const std::string& name, int stage, int stages, int micro_batches) {
  ROOKERY_CHECK(0 <= stage && stage < stages, "stage {} of {}", stage, stages);
  ROOKERY_CHECK(micro_batches >= 1, "{} micro-batches", micro_batches);
  if (name == "1f1b") return one_forward_one_backward(stage, stages, micro_batches);
  throw ConfigError(
      fmt::format("schedule: there is no '{}'; there is: {}", name, fmt::join(schedule_names(), ", ")));
}

Schedule inference_schedule(int micro_batches) {
  Schedule schedule;
  for (int i = 0; i < micro_batches; ++i) schedule.push_back({ActionKind::kForward, i});
  return schedule;
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names{"1f1b"};
  return names;
}

int in_flight(const Schedule& schedule) {
  int now = 0;
  int most = 0;
  for (const Action& action : schedule) {
    if (action.kind == ActionKind::kForward) most = std::max(most, ++now);
    if (action.kind == ActionKind::kBackwardWeights) --now;
  }
  return most;
}

std::string to_string(const Schedule& schedule) {
  std::string text;
  for (const Action& action : schedule) {
    if (!text.empty()) text += ' ';
    text += static_cast<char>(action.kind);
    text += std::to_string(action.micro_batch);
  }
  return text;
}

}  // namespace rookery
