// Runs the actions of a schedule over an Executable and a Link: training steps, or one batch of
// validation, of one stage.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/base/fnv.hpp"
#include "models/runtime/executable.hpp"
#include "trainer/averager.hpp"
#include "trainer/link.hpp"
#include "trainer/progress/batch_result.hpp"
#include "trainer/schedule/compute_turn.hpp"
#include "trainer/schedule/schedule.hpp"
#include "trainer/schedule/work_trace.hpp"
#include "trainer/step_exchange.hpp"

namespace rookery {

// Fills the model's inputs (data, targets, sample ids) of one micro-batch; only stage 0 has one.
// `value` is the input's name.
using FillInput = std::function<void(const MicroBatch&, const std::string& value, TensorView into)>;

// Batches that are trained one behind the other, a step each. Before the first and after the last all stages
// have made all updates.
struct TrainingRun {
  std::int64_t first_step = 0;  // steps count from 0
  std::int64_t batches = 1;
  // Called in their order, before a batch's first forward: the samples of its micro-batches. All batches of a
  // run have as many micro-batches. None, in a run of one batch: the step has samples on other clusters
  // alone.
  std::function<std::vector<std::int64_t>(std::int64_t batch)> begin;
  // The samples over which a batch's losses take their mean, as far as gradients go; empty: its own.
  std::function<std::int64_t(std::int64_t batch)> mean_over;
  std::function<double(std::int64_t step)> learning_rate;
  // Called in their order, after a batch's update. On the Leaf the result is filled, elsewhere only
  // `samples`.
  std::function<void(const BatchResult& result)> end;
};

// Seconds spent since the worker was made.
struct WorkTimes {
  double forward = 0;   // of training; on the Root with the reading of samples
  double backward = 0;  // both phases
  double update = 0;
  double waiting = 0;              // in receive()
  double waiting_for_later = 0;    // of that, for stages behind this one
  double validation = 0;           // forward in validation
  std::int64_t micro_batches = 0;  // trained
  std::int64_t updates = 0;
  std::int64_t staleness = 0;  // summed over the micro-batches, updates of earlier batches before their own

  WorkTimes& operator+=(const WorkTimes& other);
  WorkTimes operator-(const WorkTimes& before) const;
};

// The place of a stage's cluster among others.
struct ClusterPlace {
  Averager* averager = nullptr;  // nullptr: there are no others
  int preceding = 0;             // MicroBatch's
};

// Where ScheduleSettings::updates_ahead says so, and gradients are clipped, a stage makes its update before
// the norm of all gradients is known (post-validation, arXiv 2401.10241), unless the step before was clipped,
// and begins the next step. Before that one's first backward, or that of another stage of its machine, when
// the norm is there, it takes the update back where it was wrong, makes it anew, and runs the forwards since
// then again, so that the bits are those of a stage that waits. Every stage knows from its schedule how many
// forwards others have run for nothing, and what they sent, drops these and takes what is sent again instead.
//
// One thread. Link, Executable and Averager outlive the worker. Errors carry "stage K: step S: " before what
// happened.
class StageWorker {
 public:
  // ConfigError for an unknown schedule; `fill_input` may be empty but on stage 0.
  // `clip_gradient_norm`: of the gradients of all stages, or, where the schedule is asynchronous, of this
  // one. `norm_every`: StepExchange's.
  StageWorker(Executable& executable, Link& link, ScheduleSettings schedule, FillInput fill_input,
              std::optional<double> clip_gradient_norm = std::nullopt, ClusterPlace place = {},
              std::int64_t norm_every = 0);

  // Forwards, backwards and updates; at its end shared parameters have their new values on every stage.
  void train(const TrainingRun& run);
  // Before anything but train() follows, and before what is trained is read: the newest update becomes final.
  void settle() { settle(nullptr); }
  // False while an update may still be taken back.
  bool is_settled() const { return !ahead_ || stage_.is_leaf(); }
  // From here on what is done in training is told to `trace`, which outlives the worker.
  void trace_to(WorkTrace* trace) { trace_ = trace; }
  // From here on it computes only when it has the turn, which outlives the worker: its machine has other
  // stages, too.
  void take_turns(ComputeTurn* turn) { turn_ = turn; }
  // A run of one batch.
  BatchResult train(std::int64_t step, double learning_rate, std::span<const std::int64_t> sizes);
  // One batch of validation; `number` counts all of the run, from 0. `samples` are those over which the
  // losses take their mean, if it is more than this batch: the result is its share.
  BatchResult validate(std::int64_t number, std::span<const std::int64_t> sizes, std::int64_t samples = 0);

  // StepExchange's.
  std::vector<GradientNorm> take_norms(bool all) { return exchange_.take_norms(all); }

  WorkTimes times() const;
  // A digest of the ids of all samples that came by, in their order; 0 on a stage that sees none. Root and
  // Leaf of one run have the same.
  std::uint64_t sample_digest() const { return sample_digest_ ? sample_digest_->value() : 0; }
  // Counts the samples of a run that goes on after those of this digest; before the first batch.
  void continue_digest(std::uint64_t digest) {
    if (digest != 0) sample_digest_.emplace(digest);
  }

 private:
  // The place where the Leaf finds what a loss says: indices of its outputs.
  struct Observed {
    std::size_t loss = 0;
    std::optional<std::size_t> hits;
    double weight = 1;
  };

  // A batch on its way.
  struct Batch {
    std::vector<MicroBatch> micro_batches;
    std::int64_t mean_over = 0;  // samples over which losses take their mean
    std::int64_t staleness = 0;  // updates of earlier batches that come between its beginning and its own
    int forwards = 0;            // that have run
    bool runs_again = false;     // those that came before the update was settled
    BatchResult result;
  };

  // An update that was made before its norm was known.
  struct Ahead {
    std::int64_t step = 0;
    double learning_rate = 0;
    std::optional<float> factor;              // of the Leaf, which knows it
    std::optional<Fnv1a> sample_digest = {};  // when it was made
  };

  Batch make_batch(Mode mode, std::int64_t step, std::span<const std::int64_t> sizes,
                   std::int64_t mean_over = 0) const;
  void act(const TrainingRun& run, const Action& action, Batch& batch);
  ActionTimer timer(double& total, ActionKind kind, const MicroBatch& micro_batch) const;
  void skip(const TrainingRun& run, const BatchResult& result);
  void update(const TrainingRun& run, const MicroBatch& last);
  void begin_ahead(double learning_rate, std::int64_t step);
  void update_ahead(double learning_rate, std::int64_t step);
  // `batch`: whose forwards have begun since.
  void settle(Batch* batch);
  void run_again(Batch& batch);
  MessageKind activation_kind(const Batch& batch, const MicroBatch& micro_batch, int from_stage) const;
  // An action of the schedule has its turn in the machine's order, whatever is computed besides between two.
  ComputeTurn::Hold scheduled_turn(const Batch& batch) const;
  ComputeTurn::Hold turn_between() const;
  void forward(const Batch& batch, const MicroBatch& micro_batch, bool is_scheduled);
  void backward_inputs(const Batch& batch, const MicroBatch& micro_batch);
  Executable::GradientDone done_of(const Batch& batch, const MicroBatch& micro_batch) const;
  void receive(int from_stage, MessageKind kind, const MicroBatch& micro_batch, const std::string& value,
               TensorView into);
  void digest_samples(const MicroBatch& micro_batch);
  void observe(const MicroBatch& micro_batch, Batch& batch);

  Executable& executable_;
  Link& link_;
  const Stage& stage_;  // the Executable's
  ScheduleSettings schedule_;
  FillInput fill_input_;
  ClusterPlace place_;
  StepExchange exchange_;
  std::optional<Ahead> ahead_;
  std::optional<std::size_t> sample_ids_;  // index of the input
  std::vector<Observed> observed_;
  WorkTimes times_;
  WorkTrace* trace_ = nullptr;
  ComputeTurn* turn_ = nullptr;         // none: the machine is this stage's alone
  std::optional<Fnv1a> sample_digest_;  // of those that came by until now
};

}  // namespace rookery
