// The measurements of a node in a run, beside what clusterize predicted (NodeMetadata::prediction).
#pragma once

#include <cstdint>
#include <map>

#include "trainer/trainer.hpp"

namespace rookery {

struct NodeReport {
  std::int64_t steps = 0;
  double seconds = 0;  // training and validation
  double waiting = 0;  // of these, in receive()
  double reading = 0;  // of these, for samples that were not read yet
  double stolen = 0;   // CpuSteal's share meanwhile
  // Milliseconds, means over `compared_steps`: those of a whole batch that follow another step.
  std::int64_t compared_steps = 0;
  double forward_ms = 0;   // per micro-batch
  double backward_ms = 0;  // per micro-batch
  double update_ms = 0;    // per step
  double step_ms = 0;
  // Rounds of averaging with other clusters: how many, the mean of what each took from its beginning to its
  // end, and for how long the stage has waited for them in all, which is the part that training did not hide;
  // and the bytes that the node has sent in them, by ring.
  std::int64_t rounds = 0;
  double round_ms = 0;
  double exposed_seconds = 0;
  std::map<int, std::uint64_t> ring_bytes;
  // The floor: memory that is resident whatever the stage is, beside what the plan counts. It is the program,
  // its libraries and sockets.
  std::int64_t floor_bytes = 0;
  std::int64_t checkpoint_bytes = 0;  // of a copy of the state, which is written meanwhile
  std::int64_t peak_bytes = 0;        // resident at most (VmHWM)
};

// The report of what `trainer` has done; without `seconds`, `stolen` and memory, which it does not know.
NodeReport report_of(const Trainer& trainer);

}  // namespace rookery
