#include "trainer/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/process/program.hpp"
#include "models/graph/passes/loss.hpp"
#include "trainer/feed/batch_feed.hpp"
#include "trainer/progress/plateau.hpp"
#include "trainer/schedule/schedule.hpp"

namespace rookery {

class Trainer::Impl {
 public:
  Impl(Executable& executable, Link& link, const Dataset* dataset, TrainerOptions options)
      : options_(std::move(options)),
        link_(link),
        stages_(executable.stage().count),
        is_leaf_(executable.stage().is_leaf()),
        state_(first_state(options_)),
        first_step_(state_.step),
        plateau_(state_.learning_rate, options_.settings.learning_rate_schedule),
        loss_ops_(losses_of(executable.stage().graph)),
        feed_(make_feed(executable.stage(), dataset, options_)),
        worker_(
            executable, link, options_.settings.schedule,
            [this](const MicroBatch& micro_batch, const std::string& value, TensorView into) {
              feed_->fill(micro_batch, value, into);
            },
            options_.settings.clip_gradient_norm) {
    check_validation(settings(), options_.data);
    plateau_.go_on(state_.learning_rate, state_.plateau);
    worker_.continue_digest(state_.sample_digest);
    const RunDescription run{settings(), options_.data, loss_ops_, options_.from ? &*options_.from : nullptr};
    tell([&](RunLog& log) { log.begin(run); });
    if (is_leaf_ && follows_plateau() && settings().learning_rate_schedule.metric == "validation_accuracy" &&
        !classifies()) {
      throw ConfigError(
          "learning_rate_schedule/metric: \"validation_accuracy\" needs a loss of class indices: give "
          "\"validation_loss\"");
    }
  }

  void run() {
    for (std::int64_t epoch = state_.epoch; epoch < settings().epochs; ++epoch) {
      EpochResult result{.training_loss = train_epoch(epoch)};
      const bool is_due = settings().validate_every > 0 && (epoch + 1) % settings().validate_every == 0;
      if (is_due && options_.data.validation_samples > 0) result.validation = validate(epoch);
      if (follows_plateau() && epoch + 1 < settings().epochs) follow_plateau(result);
      begin_epoch(epoch + 1);
    }
    finish();
  }

  void finish() {
    if (std::exchange(is_finished_, true)) return;
    if (state_.samples == options_.data.train_samples) begin_epoch(state_.epoch + 1);
    stand(true);
    link_.flush();
  }

  double train_epoch(std::int64_t epoch) {
    if (epoch != state_.epoch || state_.samples == options_.data.train_samples) begin_epoch(epoch);
    if (feed_) feed_->start_epoch(epoch);
    const std::int64_t batches = batches_per_epoch(settings(), options_.data.train_samples);
    const std::int64_t together = is_synchronous(settings().schedule) ? 1 : batches;
    for (std::int64_t first = state_.samples / settings().batch_size; first < batches; first += together) {
      stand(false);
      if (together > 1) last_step_.reset();  // filling the pipeline takes longer than a step
      worker_.train(
          {.first_step = state_.step,
           .batches = together,
           .begin = [&](std::int64_t i) { return next_batch(first + i, options_.data.train_samples); },
           .learning_rate = [&](std::int64_t step) { return learning_rate_of(step); },
           .end = [&](const BatchResult& result) { end_step(epoch, result); }});
    }
    const double mean_loss = state_.epoch_loss / static_cast<double>(options_.data.train_samples);
    const Progress now = progress(epoch);
    tell([&](RunLog& log) { log.after_epoch(now, mean_loss); });
    return mean_loss;
  }

  Validation validate(std::int64_t epoch) {
    if (feed_) feed_->start_validation();
    last_step_.reset();
    const std::int64_t samples = options_.data.validation_samples;
    BatchResult total;
    for (std::int64_t i = 0; i < batches_per_epoch(settings(), samples); ++i)
      total.add(worker_.validate(state_.validation_batches++, next_batch(i, samples), samples));
    ++state_.validations;
    if (!is_leaf_) return {};
    Progress now = progress(epoch);
    now.accuracy = total.accuracy();
    tell([&](RunLog& log) { log.after_validation(now, total); });
    return {total.loss, total.accuracy()};
  }

  std::int64_t steps_done() const { return state_.step; }
  const StageWorker& worker() const { return worker_; }
  const StepTimes& step_times() const { return step_times_; }

 private:
  struct EpochResult {
    double training_loss = 0;  // mean over the samples
    std::optional<Validation> validation;
  };

  static RunState first_state(const TrainerOptions& options) {
    if (options.from) return going_on(*options.from, options.settings, options.data.train_samples);
    const double rate = options.settings.optimizer.learning_rate;
    return {.base_rate = rate, .learning_rate = rate};
  }

  void begin_epoch(std::int64_t epoch) {
    state_.epoch = epoch;
    state_.samples = 0;
    state_.epoch_loss = 0;
  }

  // All stages stand between the same two steps.
  void stand(bool is_end) {
    if (!options_.between_steps || state_.step == first_step_) return;
    RunState state = state_;
    state.sample_digest = worker_.sample_digest();
    state.plateau = plateau_.memory();
    options_.between_steps(state, is_end);
  }

  static std::optional<BatchFeed> make_feed(const Stage& stage, const Dataset* dataset,
                                            const TrainerOptions& options) {
    if (!stage.is_root()) return std::nullopt;
    ROOKERY_CHECK(dataset != nullptr, "the Root needs the data set");
    return std::make_optional<BatchFeed>(*dataset, options.settings, options.data, stage);
  }

  bool classifies() const {
    return std::ranges::any_of(loss_ops_, [](const LossOp& loss) { return loss.hits.has_value(); });
  }

  bool follows_plateau() const { return settings().learning_rate_schedule.name == "plateau"; }
  bool watches_validation() const { return settings().learning_rate_schedule.metric != "training_loss"; }

  // The Leaf knows what the epoch has led to: it decides the rate and tells all others.
  void follow_plateau(const EpochResult& result) {
    if (watches_validation() && !result.validation) return;
    const MessageKey key{.kind = MessageKind::kBackwardLearningRate, .step = state_.step};
    if (!is_leaf_) {
      receive_rate(key);
      return;
    }
    const std::string& metric = settings().learning_rate_schedule.metric;
    plateau_.note(metric == "training_loss" ? result.training_loss
                  : metric == "validation_loss"
                      ? result.validation->loss
                      : result.validation->accuracy.value_or(std::numeric_limits<double>::quiet_NaN()));
    state_.learning_rate = plateau_.rate();
    for (int stage = 0; stage + 1 < stages_; ++stage) send_number(link_, stage, key, state_.learning_rate);
  }

  void receive_rate(const MessageKey& key) {
    const double rate = receive_number(link_, stages_ - 1, key);
    if (!(rate >= 0 && rate <= state_.learning_rate)) {
      throw TransportError(
          fmt::format("receive {} from stage {}: it is {}, and was {} before: a rate can only fall",
                      to_string(key), stages_ - 1, rate, state_.learning_rate));
    }
    state_.learning_rate = rate;
  }

  // Makes the Root's feed ready for batch `i` of an epoch of so many samples; the sizes of its micro-batches.
  std::vector<std::int64_t> next_batch(std::int64_t i, std::int64_t samples) {
    throw_if_stopped();
    const std::int64_t first = i * settings().batch_size;
    const std::int64_t batch = std::min(settings().batch_size, samples - first);
    if (feed_) feed_->set_batch(first, batch);
    return micro_batch_sizes(settings(), batch);
  }

  void end_step(std::int64_t epoch, const BatchResult& result) {
    note_step(result.samples);
    ++state_.step;
    state_.samples += result.samples;
    if (is_leaf_) state_.epoch_loss += result.loss * static_cast<double>(result.samples);
    samples_done_ += result.samples;
    Progress now = progress(epoch);
    if (is_leaf_) now.loss = result.loss;
    tell([&](RunLog& log) { log.after_update(now, result); });
  }

  void note_step(std::int64_t samples) {
    const auto now = std::chrono::steady_clock::now();
    const WorkTimes work = worker_.times();
    if (last_step_ && samples == settings().batch_size) {
      ++step_times_.steps;
      step_times_.seconds += std::chrono::duration<double>(now - last_step_->end).count();
      step_times_.work += work - last_step_->work;
    }
    last_step_ = {now, work};
  }

  // The same on every stage.
  double learning_rate_of(std::int64_t step) const {
    return learning_rate(state_.learning_rate, settings().learning_rate_schedule, step,
                         batches_per_epoch(settings(), options_.data.train_samples), settings().epochs);
  }

  template <typename Event>
  void tell(Event&& event) const {
    for (RunLog* log : options_.logs) event(*log);
  }

  Progress progress(std::int64_t epoch) const {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    const std::int64_t steps = settings().epochs * batches_per_epoch(settings(), options_.data.train_samples);
    return {.epoch = epoch,
            .epochs = settings().epochs,
            .step = state_.step,
            .steps = steps,
            .samples_per_second = static_cast<double>(samples_done_) / seconds,
            .seconds_left = seconds / static_cast<double>(state_.step - first_step_) *
                            static_cast<double>(steps - state_.step),
            .loss = std::nullopt,
            .accuracy = std::nullopt};
  }

  const TrainingSettings& settings() const { return options_.settings; }

  const TrainerOptions options_;
  Link& link_;
  const int stages_;
  const bool is_leaf_;
  RunState state_;  // its digest and plateau as they were at the beginning
  const std::int64_t first_step_;
  Plateau plateau_;                     // the Leaf's
  const std::vector<LossOp> loss_ops_;  // the Leaf's
  std::optional<BatchFeed> feed_;       // the Root's
  StageWorker worker_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::int64_t samples_done_ = 0;  // by this Trainer
  bool is_finished_ = false;
  struct StepEnd {
    std::chrono::steady_clock::time_point end;
    WorkTimes work;  // until then
  };
  std::optional<StepEnd> last_step_;  // where a step follows it
  StepTimes step_times_;
};

Trainer::Trainer(Executable& executable, Link& link, const Dataset* dataset, TrainerOptions options)
    : impl_(std::make_unique<Impl>(executable, link, dataset, std::move(options))) {}
Trainer::~Trainer() = default;

void Trainer::run() {
  impl_->run();
}

double Trainer::train_epoch(std::int64_t epoch) {
  return impl_->train_epoch(epoch);
}

Validation Trainer::validate(std::int64_t epoch) {
  return impl_->validate(epoch);
}

void Trainer::finish() {
  impl_->finish();
}

std::int64_t Trainer::steps_done() const {
  return impl_->steps_done();
}

WorkTimes Trainer::times() const {
  return impl_->worker().times();
}

StepTimes Trainer::step_times() const {
  return impl_->step_times();
}

std::uint64_t Trainer::sample_digest() const {
  return impl_->worker().sample_digest();
}

CompileOptions compile_options(const TrainingSettings& settings, const DataSizes& data, int stage, int stages,
                               const KernelChoice& kernels) {
  const std::int64_t largest_batch = std::min(settings.batch_size, data.train_samples);
  const int micro_batches = static_cast<int>(micro_batch_sizes(settings, largest_batch).size());
  return {.training_sizes = training_sizes(settings, data),
          .inference_sizes = validation_sizes(settings, data),
          .slots = in_flight(settings.schedule, stage, stages, micro_batches),
          .stashes_weights = !is_synchronous(settings.schedule),
          .accumulates = micro_batches > 1,
          .recompute = settings.recompute == "full",
          .kernels = kernels,
          .seed = settings.seed,
          .optimizer = settings.optimizer};
}

}  // namespace rookery
