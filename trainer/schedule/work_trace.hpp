// What a stage really did, and when: the actions of its schedule with their times. As a file it is Chrome's
// trace format (catapult's "Trace Event Format"), which chrome://tracing and ui.perfetto.dev draw; clusterize
// --measured draws it beside the simulated step. See node_data/README.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/files/json_file.hpp"
#include "trainer/schedule/schedule.hpp"

namespace rookery {

// An action, in seconds since 1970 by the machine's clock; `action.batch` is the step of the run.
struct TracedAction {
  Action action;
  double begin = 0;
  double end = 0;
};

// Whose trace it is.
struct TraceOwner {
  std::string plan_id;
  std::string node;
  int cluster = 0;
  int stage = 0;
};

// One thread. Keeps the newest actions of a run, kMost of them.
class WorkTrace {
 public:
  static constexpr std::size_t kMost = 100'000;
  using Clock = std::chrono::steady_clock;

  void add(const Action& action, Clock::time_point begin, Clock::time_point end);
  const std::deque<TracedAction>& actions() const { return actions_; }

 private:
  // Steady, and nevertheless comparable between machines whose clocks agree.
  const std::chrono::duration<double> since_1970_ =
      std::chrono::system_clock::now().time_since_epoch() - Clock::now().time_since_epoch();
  std::deque<TracedAction> actions_;
};

// Adds the seconds from its construction to its destruction to `total`, and the action to `trace`, which may
// be nullptr.
class ActionTimer {
 public:
  ActionTimer(double& total, WorkTrace* trace, const Action& action)
      : total_(total), trace_(trace), action_(action), begin_(WorkTrace::Clock::now()) {}
  ~ActionTimer() {
    const WorkTrace::Clock::time_point end = WorkTrace::Clock::now();
    total_ += std::chrono::duration<double>(end - begin_).count();
    if (trace_ != nullptr) trace_->add(action_, begin_, end);
  }
  ActionTimer(const ActionTimer&) = delete;
  ActionTimer& operator=(const ActionTimer&) = delete;

 private:
  double& total_;
  WorkTrace* const trace_;
  const Action action_;
  const WorkTrace::Clock::time_point begin_;
};

// DataError naming the file where it cannot be written.
void write_trace(const std::filesystem::path& path, const TraceOwner& owner,
                 const std::deque<TracedAction>& actions);

struct ReadTrace {
  TraceOwner owner;
  std::vector<TracedAction> actions;
};
// ConfigError naming the file, for what no provider has written.
ReadTrace read_trace(const std::filesystem::path& path);

}  // namespace rookery
