// A micro-batch on its way through a stage.
#pragma once

#include <cstdint>

namespace rookery {

enum class Mode : std::uint8_t { kTraining, kInference };

struct MicroBatch {
  Mode mode = Mode::kTraining;
  std::int64_t step = 0;  // update counter, from 0
  int index = 0;          // within the step
  std::int64_t size = 0;  // samples: one of the compiled sizes
  int slot = 0;           // < slots; 0 in inference
  float loss_weight = 1;  // share in the mean loss of the batch
  // Micro-batches of the same step that other clusters have before this one's: with `index` it says what
  // random numbers are drawn.
  int preceding = 0;
};

}  // namespace rookery
