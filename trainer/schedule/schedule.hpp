// Pipeline schedules: pure functions from (stage, stages, micro-batches) to the list of actions of
// one step. The runtime and the simulator read the same list.
//   1f1b  synchronous one-forward-one-backward (PipeDream-flush, arXiv 2006.09503): stage k runs
//         min(M, stages - 1 - k) forwards ahead, then alternates forward and backward.
#pragma once

#include <string>
#include <vector>

namespace rookery {

enum class ActionKind : char {
  kForward = 'F',
  kBackwardInputs = 'B',   // gradients of the stage's inputs
  kBackwardWeights = 'W',  // gradients of its weights
};

struct Action {
  ActionKind kind = ActionKind::kForward;
  int micro_batch = 0;
  bool operator==(const Action&) const = default;
};

using Schedule = std::vector<Action>;

// ConfigError for an unknown name; BugError unless 0 <= stage < stages and micro_batches >= 1.
Schedule make_schedule(const std::string& name, int stage, int stages, int micro_batches);
// Forwards only, for validation.
Schedule inference_schedule(int micro_batches);
// Names that make_schedule knows.
const std::vector<std::string>& schedule_names();
// The largest number of micro-batches whose forward has run and whose last backward has not.
int in_flight(const Schedule& schedule);
// "F0 F1 B0 W0 …"
std::string to_string(const Schedule& schedule);

}  // namespace rookery
