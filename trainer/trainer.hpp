// Runs the training loop: epochs, batches, validation, over a StageWorker. Each stage has one Trainer; all
// stages of a cluster run the same loop in step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "models/kernels/choose.hpp"
#include "models/runtime/executable.hpp"
#include "trainer/agreement.hpp"
#include "trainer/averager.hpp"
#include "trainer/data/dataset.hpp"
#include "trainer/link.hpp"
#include "trainer/progress/run_log.hpp"
#include "trainer/progress/run_state.hpp"
#include "trainer/schedule/compute_turn.hpp"
#include "trainer/schedule/work_trace.hpp"
#include "trainer/settings/batch_sizes.hpp"
#include "trainer/settings/cluster_shares.hpp"
#include "trainer/settings/settings.hpp"
#include "trainer/stage_worker.hpp"

namespace rookery {

struct TrainerOptions {
  TrainingSettings settings;
  DataSizes data;
  // Told in this order; they outlive the Trainer.
  std::vector<RunLog*> logs;
  // The place where the run goes on, to which the Executable's state belongs; nothing: it begins.
  std::optional<RunState> from;
  // Called when all stages stand between the same two steps: before each step, with an asynchronous schedule
  // before each epoch, but for the first of this Trainer, and by finish(), then with `is_end`; of several
  // clusters where they hold the same model. May use the Link and the ClusterRoots, as long as every stage
  // does the same; what it throws ends the run there.
  std::function<void(const RunState&, bool is_end)> between_steps;
  // Asked before: whether it is going to read what is trained, which waits for the newest update to be final
  // (StageWorker), and gathers the losses of all clusters. The same on all stages of all clusters; nothing:
  // it always is.
  std::function<bool(const RunState&, bool is_end)> reads_state;
  // Where a plan has several clusters: this one and what each trains of a step; what keeps them one model;
  // and on their Roots what joins these. All outlive the Trainer.
  std::optional<ClusterShares> shares;  // nothing: one cluster
  Averager* averager = nullptr;
  ClusterRoots* roots = nullptr;
  // Told what the stage does when, where it is not nullptr; outlives the Trainer.
  WorkTrace* trace = nullptr;
  // Where the stage's machine has others, which share it; outlives the Trainer.
  ComputeTurn* turn = nullptr;
};

// The time that steps took: of those of a whole batch that follow another step at once, so that neither the
// start of the run nor a validation is in it.
struct StepTimes {
  std::int64_t steps = 0;
  double seconds = 0;  // from the end of one to the end of the next
  WorkTimes work;
};

// The result over the validation samples, which the Leaf knows; elsewhere it is empty.
struct Validation {
  double loss = 0;                 // mean over the samples
  std::optional<double> accuracy;  // percent; of what is classified
};

class Trainer {
 public:
  // `dataset` is needed on stage 0 and ignored elsewhere; everything outlives the Trainer.
  // ConfigError when data set, model and settings do not fit each other, or not the place where the run goes
  // on.
  Trainer(Executable& executable, Link& link, const Dataset* dataset, TrainerOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // The whole run, once, or what is left of it: every epoch, with validations and the learning rate of the
  // settings. Throws what Link and files throw, with the step in the message, and Interrupted between steps
  // when a stop signal has come.
  void run();

  // The parts of run(), for loops of one's own: every stage must do the same in the same order. (Of the
  // learning rate schedules run() alone follows `plateau`.)
  double train_epoch(std::int64_t epoch);  // the mean loss over the samples on the Leaf
  Validation validate(std::int64_t epoch);
  // After the last epoch, once. run() and Node::run() do so themselves.
  void finish();

  std::int64_t steps_done() const;
  WorkTimes times() const;
  StepTimes step_times() const;
  // How long the Root has waited for samples to be read.
  double seconds_reading() const;
  // StageWorker's.
  std::uint64_t sample_digest() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// May a plan of one cluster have updates ahead (StageWorker)? They are worth their memory where nothing but
// the norm of gradients keeps a stage from the next step.
bool may_update_ahead(const TrainingSettings& settings, const Graph& model);

// May the stages of a plan of so many clusters update parameters in backward (CompileOptions)? Not where
// their gradients are clipped, or summed over the clusters, before.
bool may_update_in_backward(const TrainingSettings& settings, int micro_batches, int clusters);

// The CompileOptions that a stage needs for this run; `shares`: TrainerOptions::shares.
CompileOptions compile_options(TrainingSettings settings, const DataSizes& data, int stage, int stages,
                               const KernelChoice& kernels,
                               const std::optional<ClusterShares>& shares = std::nullopt);

}  // namespace rookery
