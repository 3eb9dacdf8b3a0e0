// A prediction is what the planner expects of one stage; providers measure the same.
#pragma once

#include <cstdint>

#include "models/runtime/executable.hpp"

namespace rookery {

// The times and sizes that are expected of one stage, per micro-batch of the full size.
struct StagePrediction {
  double forward_ms = 0;
  double backward_ms = 0;
  double send_ms = 0;    // its boundary, one direction
  double update_ms = 0;  // of a step
  MemoryUse memory;
  std::int64_t transport_bytes = 0;  // buffers of the link, and what is kept of samples
  std::int64_t dataset_bytes = 0;    // on the Root
  std::int64_t averaging_bytes =
      0;  // with other clusters: buffers of the rings, and an outer optimizer's state
  std::int64_t total_bytes() const {
    return memory.total() + transport_bytes + dataset_bytes + averaging_bytes;
  }
};

}  // namespace rookery
