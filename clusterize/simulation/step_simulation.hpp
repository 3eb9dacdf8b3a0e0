// Runs a StepProgram, event by event.
//
// A process waits for a message where it needs it, as StageWorker does, and then for its turn to compute
// where others share its machine, as ComputeTurn has it. Sending takes no time of the sender's: an I/O thread
// does it, and its buffers (two of each tensor) are taken to be large enough.
#pragma once

#include <functional>
#include <vector>

#include "clusterize/simulation/step_program.hpp"

namespace rookery {

// Something that took a while.
struct WorkSpan {
  int node = 0;
  Work work = Work::kForward;
  int micro_batch = 0;
  double begin = 0;
  double end = 0;
  std::size_t process = 0;  // whose it is
  std::size_t instruction = 0;
};
struct MessageSpan {
  int message = 0;
  double begin = 0;   // its first byte leaves
  double sent = 0;    // its last byte leaves
  double arrive = 0;  // and is there
};
struct StepTrace {
  std::vector<WorkSpan> work;
  std::vector<MessageSpan> messages;
};

struct StepRun {
  double seconds = 0;             // until the last process is done
  std::vector<double> computing;  // by node
  std::vector<double> updated;    // by batch: when the last node has made its update
};

// Factor of a node's computing for a batch.
using Slowdown = std::function<double(int node, int batch)>;

// `slowdown`: none given: 1. `trace`, where given, gets everything
// that happened, work in the order of its beginnings, messages of their departures. BugError when processes
// wait for each other for ever.
StepRun simulate_step(const StepProgram& program, const Slowdown& slowdown = {}, StepTrace* trace = nullptr);

}  // namespace rookery
