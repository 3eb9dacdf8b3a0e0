// Runs the actions of a schedule over an Executable and a Link: one step, or one batch of
// validation, of one stage.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "models/runtime/executable.hpp"
#include "trainer/link.hpp"
#include "trainer/schedule/schedule.hpp"

namespace rookery {

// Fills the model's inputs (data, labels, sample ids) of one micro-batch; only stage 0 has one.
// `value` is the input's name.
using FillInput = std::function<void(const MicroBatch&, const std::string& value, TensorView into)>;

// What the last stage learnt from one batch.
struct BatchResult {
  double loss = 0;           // mean over the batch
  std::int64_t correct = 0;  // samples whose largest output is their label
  std::int64_t samples = 0;
};

// Seconds spent since the worker was made.
struct WorkTimes {
  double forward = 0;
  double backward = 0;  // both phases
  double update = 0;
  double waiting = 0;   // in receive()
  std::int64_t micro_batches = 0;
};

// One thread. Link and Executable outlive the worker.
class StageWorker {
 public:
  StageWorker(Executable& executable, Link& link, std::string schedule, FillInput fill_input);

  // One step: forwards, backwards, update. `sizes` holds the samples of every micro-batch. On the
  // last stage the result is filled, elsewhere only `samples`.
  BatchResult train(std::int64_t step, std::span<const std::int64_t> sizes);
  // One batch of validation; `number` counts all of the run, from 0.
  BatchResult validate(std::int64_t number, std::span<const std::int64_t> sizes);

  const WorkTimes& times() const;
};

}  // namespace rookery
