// Runs the actions of a schedule over an Executable and a Link: one step, or one batch of
// validation, of one stage.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/runtime/executable.hpp"
#include "trainer/link.hpp"
#include "trainer/schedule/schedule.hpp"
#include "trainer/step_exchange.hpp"

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
  double waiting = 0;  // in receive()
  std::int64_t micro_batches = 0;
};

// One thread. Link and Executable outlive the worker. Errors carry "stage K: step S: " before what
// happened.
class StageWorker {
 public:
  // ConfigError for an unknown schedule; `fill_input` may be empty but on stage 0.
  // `clip_gradient_norm`: StepExchange's.
  StageWorker(Executable& executable, Link& link, std::string schedule, FillInput fill_input,
              std::optional<double> clip_gradient_norm = std::nullopt);

  // One step: forwards, backwards, update; then shared parameters have their new values on every stage.
  // `step` counts from 0; `sizes` holds the samples of every micro-batch. On the last stage the result
  // is filled, elsewhere only `samples`.
  BatchResult train(std::int64_t step, double learning_rate, std::span<const std::int64_t> sizes);
  // One batch of validation; `number` counts all of the run, from 0.
  BatchResult validate(std::int64_t number, std::span<const std::int64_t> sizes);

  WorkTimes times() const;
  // Of the ids of all samples that came by, in their order; 0 on a stage that sees none. Root and
  // Leaf of one run have the same.
  std::uint64_t sample_digest() const { return sample_digest_; }

 private:
  // Where the last stage finds what it reports: indices of its inputs and outputs.
  struct Observed {
    std::optional<std::size_t> labels, sample_ids, prediction, loss;
    std::int64_t classes = 0;  // outputs of the model for a sample
  };

  BatchResult run(const Schedule& schedule, std::vector<MicroBatch>& micro_batches);
  void forward(const MicroBatch& micro_batch);
  void backward_inputs(const MicroBatch& micro_batch);
  void receive(int from_stage, MessageKind kind, const MicroBatch& micro_batch, const std::string& value,
               TensorView into);
  // Reads sample ids and labels of a micro-batch whose inputs are there. DataError for a label that
  // the model has no output for.
  void check_samples(const MicroBatch& micro_batch);
  void observe(const MicroBatch& micro_batch, std::int64_t batch_samples, BatchResult& result);

  Executable& executable_;
  Link& link_;
  const Stage& stage_;  // the Executable's
  std::string schedule_;
  FillInput fill_input_;
  StepExchange exchange_;
  Observed observed_;
  WorkTimes times_;
  std::uint64_t sample_digest_ = 0;
};

}  // namespace rookery
