// Measures what the parts of a training step take on this machine, in the step itself: in their order, on
// memory as the runtime plans it, by the kernels of the run.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "models/runtime/executable.hpp"

namespace rookery {

struct StepProfile {
  std::vector<OpTime> ops;  // seconds of one micro-batch
  double update = 0;        // seconds of a step
  double seconds = 0;       // of a step of one micro-batch: the ops, the update, and what is between them
  int steps = 0;            // that these are means of
};

// Trains micro-batches of options.training_sizes[0] on made-up numbers. Wall time: what else runs on the
// machine counts, too. Uses the threads that are set (kernels/threads.hpp) and the memory that memory_use()
// says.
class StepProfiler {
 public:
  // ConfigError when the stage does not compile. Before both passes the processor rests that long, as it does
  // in a stage that waits for others: it then finds caches that others have used.
  StepProfiler(const Stage& stage, const CompileOptions& options, std::chrono::milliseconds rest = {});
  ~StepProfiler();
  StepProfiler(const StepProfiler&) = delete;
  StepProfiler& operator=(const StepProfiler&) = delete;

  // Until `seconds` have passed, at least three times.
  void run(double seconds);
  // The means over all runs.
  StepProfile profile() const;

 private:
  class ProfiledStage;
  std::unique_ptr<ProfiledStage> stage_;
  std::chrono::milliseconds rest_;
  StepProfile sums_;
};

}  // namespace rookery
