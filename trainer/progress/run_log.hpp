// Observers of a training run: the Trainer tells each of them what has happened, and each makes of it what it
// likes: files of text (trainer/progress/text_files.hpp), a line on a terminal, a message to other nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "models/graph/passes/loss.hpp"
#include "trainer/progress/batch_result.hpp"
#include "trainer/progress/run_state.hpp"
#include "trainer/settings/batch_sizes.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// The place that a run has reached, and its speed.
struct Progress {
  std::int64_t epoch = 0;  // from 0
  std::int64_t epochs = 0;
  std::int64_t step = 0;   // steps done
  std::int64_t steps = 0;  // of the whole run
  double samples_per_second = 0;
  double seconds_left = 0;
  double seconds = 0;              // of training and validation, until now
  double computing = 0;            // of these
  double waiting = 0;              // of these, for other stages
  double waiting_for_later = 0;    // of that, for stages behind this one
  std::int64_t micro_batches = 0;  // trained by this stage until now
  std::int64_t staleness = 0;      // summed over these (async)
  double learning_rate = 0;        // of the last step; after an update
  std::optional<double> loss;      // of the last step; on the Leaf, after an update
  // Percent; on the Leaf, after a validation: of the first loss whose targets are class indices.
  std::optional<double> accuracy;
};

// The facts that are known before the first batch.
struct RunDescription {
  const TrainingSettings& settings;
  const DataSizes& data;
  std::int64_t steps = 0;          // of the whole run
  std::span<const LossOp> losses;  // those that this stage computes: on the Leaf all of them, elsewhere none
  const RunState* from = nullptr;  // where the run goes on; nullptr: it begins
  bool is_first_cluster = true;    // of several, which is told of validations: they are of all
};

// All of it is called by the training thread, which waits meanwhile: no function may block. What a function
// throws ends the run. Losses are known on the Leaf; elsewhere a BatchResult has `samples` alone.
class RunLog {
 public:
  virtual ~RunLog() = default;
  // Once, by the constructor of the Trainer.
  virtual void begin(const RunDescription& /*run*/) {}
  virtual void after_update(const Progress& /*progress*/, const BatchResult& /*batch*/) {}
  // On the Leaf alone, where settings.tensorboard, of at most kMostNorms steps of a run: the norm of all
  // gradients of the update that made it so many steps, before clipping. It is known some steps later.
  static constexpr std::int64_t kMostNorms = 1000;
  virtual void after_gradients(std::int64_t /*step*/, double /*norm*/) {}
  // On the Leaf alone, of the first cluster. `total`: of all validation samples.
  virtual void after_validation(const Progress& /*progress*/, const BatchResult& /*total*/) {}
  // When the last update of an epoch is made, before the validation that may follow. `mean_loss`: over the
  // training samples, each with the weights of its step; 0 on all stages but the Leaf.
  virtual void after_epoch(const Progress& /*progress*/, double /*mean_loss*/) {}
};

}  // namespace rookery
