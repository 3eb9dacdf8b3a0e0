// The critical path is what a run of a StepProgram waited for.
#pragma once

#include <optional>
#include <vector>

#include "clusterize/simulation/step_simulation.hpp"

namespace rookery {

// Something on the critical path: a computation, or a message from its sending to its arrival.
struct PathPart {
  int node = 0;  // that computes; of a message: nobody
  Work work = Work::kForward;
  std::optional<int> message;
  double begin = 0;
  double end = 0;
};

// From the run's end back to its beginning: each part ended when the one before it could begin, so that
// together they last as long as the run (J. E. Kelley, M. R. Walker, "Critical-path planning and scheduling",
// 1959). A computation that waited for its turn waited for the one before it on its machine. `trace` is that
// of the program's run.
std::vector<PathPart> critical_path(const StepProgram& program, const StepTrace& trace);

}  // namespace rookery
