#include "trainer/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/stop_signals.hpp"
#include "models/graph/passes/loss.hpp"
#include "trainer/feed/batch_feed.hpp"
#include "trainer/progress/plateau.hpp"
#include "trainer/schedule/old_gradients.hpp"
#include "trainer/schedule/schedule.hpp"

namespace rookery {

namespace {

// A cluster's batch_size is its share of a step.
TrainerOptions of_own_share(TrainerOptions options) {
  if (!options.shares) options.shares = one_cluster(options.settings.batch_size);
  options.settings.batch_size = options.shares->own();
  return options;
}

// Lion's mean is long by itself.
OptimizerSettings of_old_gradients(OptimizerSettings optimizer, double staleness) {
  if (optimizer.name != "lion") optimizer.beta1 = 1 - (1 - optimizer.beta1) / times_the_mean(staleness);
  return optimizer;
}

}  // namespace

class Trainer::Impl {
 public:
  Impl(Executable& executable, Link& link, const Dataset* dataset, TrainerOptions options)
      : options_(of_own_share(std::move(options))),
        link_(link),
        agreement_(link, executable.stage().index, executable.stage().count, options_.roots),
        stages_(executable.stage().count),
        is_leaf_(executable.stage().is_leaf()),
        state_(first_state(options_)),
        first_step_(state_.step),
        steps_ahead_(steps_ahead(state_, shares().joint(), options_.data.train_samples)),
        plateau_(state_.learning_rate, options_.settings.learning_rate_schedule),
        loss_ops_(losses_of(executable.stage().graph)),
        feed_(make_feed(executable.stage(), dataset, options_)),
        worker_(
            executable, link, options_.settings.schedule,
            [this](const MicroBatch& micro_batch, const std::string& value, TensorView into) {
              feed_->fill(micro_batch, value, into);
            },
            options_.settings.clip_gradient_norm,
            {options_.averager, shares().cluster * decided_micro_batches(options_.settings)},
            settings().tensorboard ? (steps() + RunLog::kMostNorms - 1) / RunLog::kMostNorms : 0) {
    check_validation(settings(), options_.data);
    plateau_.go_on(state_.learning_rate, state_.plateau);
    executable.begin_optimizer(state_.optimizer_from);
    worker_.continue_digest(state_.sample_digest);
    worker_.trace_to(options_.trace);
    worker_.take_turns(options_.turn);
    const RunDescription run{
        settings(),           options_.data, steps(), loss_ops_, options_.from ? &*options_.from : nullptr,
        shares().cluster == 0};
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
      if (validates_after(epoch)) result.validation = validate(epoch);
      if (follows_plateau()) follow_plateau(result);  // after the last epoch, too, which more may follow
      begin_epoch(epoch + 1);
    }
    finish();
  }

  void finish() {
    if (std::exchange(is_finished_, true)) return;
    if (state_.samples == options_.data.train_samples) begin_epoch(state_.epoch + 1);
    stand(true);
    tell_norms(true);
    link_.flush();
  }

  double train_epoch(std::int64_t epoch) {
    if (epoch != state_.epoch || state_.samples == options_.data.train_samples) begin_epoch(epoch);
    const std::int64_t batches = steps_per_epoch();
    std::int64_t first = state_.samples / shares().joint();
    if (feed_) {
      feed_->start_epoch(epoch, own_batches(first, batches));
      if (validates_after(epoch)) {
        feed_->follow_with_validation(validation_batches());
      } else {
        read_ahead_epoch(epoch + 1);
      }
    }
    while (first < batches) {
      stand(false);
      const std::int64_t together = batches_together(first);
      if (together > 1) last_step_.reset();  // filling the pipeline takes longer than a step
      worker_.train({.first_step = state_.step,
                     .batches = together,
                     .begin = [&](std::int64_t i) { return next_training_batch(first + i); },
                     .mean_over = [&](std::int64_t i) { return mean_over(joint_batch(first + i)).count; },
                     .learning_rate = [&](std::int64_t step) { return learning_rate_of(step); },
                     .end = [&](const BatchResult& result) { end_step(epoch, result); }});
      first += together;
    }
    const double mean_loss = state_.epoch_loss / static_cast<double>(shares().trained_of(
                                                     shares().cluster, options_.data.train_samples));
    worker_.settle();
    const Progress now = progress(epoch);
    tell([&](RunLog& log) { log.after_epoch(now, mean_loss); });
    return mean_loss;
  }

  Validation validate(std::int64_t epoch) {
    last_step_.reset();
    const std::int64_t samples = options_.data.validation_samples;
    const std::vector<SampleRange> batches = validation_batches();
    if (feed_) {
      feed_->start_validation(batches);
      read_ahead_epoch(epoch + 1);
    }
    BatchResult total;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const std::int64_t number = state_.validation_batches + static_cast<std::int64_t>(i);
      total.add(worker_.validate(number, next_validation_batch(batches[i]), samples));
    }
    // The same on all clusters, and no less than each has: rounding gives one of several a sample more.
    state_.validation_batches +=
        batches_per_epoch(shares().joint(), samples) + (shares().clusters() > 1 ? 1 : 0);
    ++state_.validations;
    total = of_all_clusters("validation results", std::move(total));
    if (!is_leaf_) return {};
    Progress now = progress(epoch);
    now.accuracy = total.accuracy();
    if (shares().cluster == 0) tell([&](RunLog& log) { log.after_validation(now, total); });
    return {total.loss, total.accuracy()};
  }

  std::int64_t steps_done() const { return state_.step - (worker_.is_settled() ? 0 : 1); }
  const StageWorker& worker() const { return worker_; }
  const StepTimes& step_times() const { return step_times_; }
  double seconds_reading() const { return feed_ ? feed_->seconds_waited() : 0; }

 private:
  struct EpochResult {
    double training_loss = 0;  // mean over the samples
    std::optional<Validation> validation;
  };

  static RunState first_state(const TrainerOptions& options) {
    if (options.from) {
      RunState state =
          going_on(*options.from, options.settings, options.shares->joint(), options.data.train_samples);
      state.epoch_loss = epoch_loss_of(state, *options.shares);
      return state;
    }
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
    // An asynchronous run goes on from an epoch's start alone, and clusters need not stop at the same steps
    // within one: a last batch may be cut into fewer micro-batches in one cluster's share than in another's.
    if (!is_synchronous(settings().schedule) && state_.samples != 0) return;
    if (options_.averager != nullptr && !options_.averager->is_united(state_.step)) return;
    RunState state = state_;
    state.sample_digest = worker_.sample_digest();
    state.plateau = plateau_.memory();
    if (!options_.reads_state || options_.reads_state(state, is_end)) {
      worker_.settle();
      state.epoch_losses = losses_of_clusters();
    }
    options_.between_steps(state, is_end);
  }

  // RunState::epoch_losses; the Leaves know them.
  std::vector<LossSum> losses_of_clusters() {
    if (state_.samples == 0) return {};
    std::vector<double> sums(shares().samples.size(), 0.0);
    sums[shares().cluster] = state_.epoch_loss;
    if (shares().clusters() > 1)
      sums = agreement_.sum_of_leaves(state_.step, "training losses by cluster", std::move(sums));
    if (!is_leaf_) return {};
    std::vector<LossSum> losses;
    for (int cluster = 0; cluster < shares().clusters(); ++cluster)
      losses.push_back({sums[cluster], shares().trained_of(cluster, state_.samples)});
    return losses;
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
    const double training_loss = watches_validation() ? 0 : joint_training_loss(result.training_loss);
    if (!is_leaf_) {
      receive_rate(key);
      return;
    }
    const std::string& metric = settings().learning_rate_schedule.metric;
    plateau_.note(metric == "training_loss" ? training_loss
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

  // Batch `i` of an epoch.
  SampleRange joint_batch(std::int64_t i) const {
    return shares().joint_batch(i, options_.data.train_samples);
  }
  SampleRange own_batch(std::int64_t i) const { return shares().own_batch(i, options_.data.train_samples); }
  std::vector<SampleRange> own_batches(std::int64_t first, std::int64_t end) const {
    std::vector<SampleRange> batches;
    for (std::int64_t i = first; i < end; ++i) batches.push_back(own_batch(i));
    return batches;
  }
  std::vector<SampleRange> validation_batches() const {
    const SampleRange own = shares().part_of(options_.data.validation_samples);
    std::vector<SampleRange> batches;
    for (std::int64_t first = 0; first < own.count; first += settings().batch_size)
      batches.push_back({own.first + first, std::min(settings().batch_size, own.count - first)});
    return batches;
  }
  SampleRange mean_over(SampleRange joint) const {
    const bool sums = options_.averager != nullptr && options_.averager->sums_gradients();
    return sums ? joint : SampleRange{joint.first, 0};
  }

  bool validates_after(std::int64_t epoch) const {
    return settings().validate_every > 0 && (epoch + 1) % settings().validate_every == 0 &&
           options_.data.validation_samples > 0;
  }
  void read_ahead_epoch(std::int64_t epoch) {
    if (epoch < settings().epochs) feed_->follow_with_epoch(epoch, own_batches(0, steps_per_epoch()));
  }

  // How many batches are trained in one go from batch `first` on.
  std::int64_t batches_together(std::int64_t first) const {
    if (is_synchronous(settings().schedule)) return 1;
    const std::int64_t last = steps_per_epoch() - 1;
    const auto micro_batches = [&](std::int64_t i) {
      return micro_batch_sizes(settings(), own_batch(i).count).size();
    };
    return micro_batches(last) == micro_batches(first) ? last + 1 - first : last - first;
  }

  // These make the Root's feed ready; the sizes of the batch's micro-batches.
  std::vector<std::int64_t> next_training_batch(std::int64_t i) {
    throw_if_stopped();
    const SampleRange own = own_batch(i);
    const SampleRange wider = mean_over(joint_batch(i));
    if (feed_) feed_->set_batch(own, wider.count > 0 ? wider : own);
    return micro_batch_sizes(settings(), own.count);
  }
  std::vector<std::int64_t> next_validation_batch(SampleRange batch) {
    throw_if_stopped();
    if (feed_) feed_->set_batch(batch, batch);
    return micro_batch_sizes(settings(), batch.count);
  }

  // The sum of what the clusters' Leaves have, on each of them.
  BatchResult of_all_clusters(const char* what, BatchResult own) {
    if (shares().clusters() == 1) return own;
    own.losses.resize(settings().loss.terms.size());
    return result_from(agreement_.sum_of_leaves(state_.step, what, to_numbers(own)));
  }

  // The mean over the samples of all clusters, where each Leaf has that over its own.
  double joint_training_loss(double own) {
    if (shares().clusters() == 1) return own;
    const std::vector<double> sum =
        agreement_.sum_of_leaves(state_.step, "training loss", {state_.epoch_loss});
    return sum.front() / static_cast<double>(options_.data.train_samples);
  }

  void end_step(std::int64_t epoch, BatchResult result) {
    note_step(result.samples);
    const std::int64_t joint = joint_batch(state_.samples / shares().joint()).count;
    const double rate = learning_rate_of(state_.step);
    ++state_.step;
    state_.samples += joint;
    if (result.samples == 0) {
      result.scale(std::numeric_limits<double>::quiet_NaN());
    } else if (is_leaf_) {
      state_.epoch_loss += result.loss * static_cast<double>(result.samples);
    }
    samples_done_ += result.samples;
    Progress now = progress(epoch);
    now.learning_rate = rate;
    if (is_leaf_) now.loss = result.loss;
    tell_norms(false);
    tell([&](RunLog& log) { log.after_update(now, result); });
  }

  void tell_norms(bool all) {
    for (const GradientNorm& of : worker_.take_norms(all))
      tell([&](RunLog& log) { log.after_gradients(of.step + 1, of.norm); });
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
    return learning_rate(state_.learning_rate, settings().learning_rate_schedule, step - steps_ahead_,
                         steps_per_epoch(), settings().epochs);
  }

  const ClusterShares& shares() const { return *options_.shares; }
  std::int64_t steps_per_epoch() const {
    return batches_per_epoch(shares().joint(), options_.data.train_samples);
  }
  std::int64_t steps() const { return settings().epochs * steps_per_epoch() + steps_ahead_; }

  template <typename Event>
  void tell(Event&& event) const {
    for (RunLog* log : options_.logs) event(*log);
  }

  Progress progress(std::int64_t epoch) const {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    const WorkTimes work = worker_.times();
    return {.epoch = epoch,
            .epochs = settings().epochs,
            .step = state_.step,
            .steps = steps(),
            .samples_per_second = static_cast<double>(samples_done_) / seconds,
            .seconds_left = seconds / static_cast<double>(state_.step - first_step_) *
                            static_cast<double>(steps() - state_.step),
            .seconds = seconds,
            .computing = work.forward + work.backward + work.update + work.validation,
            .waiting = work.waiting,
            .waiting_for_later = work.waiting_for_later,
            .micro_batches = work.micro_batches,
            .staleness = work.staleness,
            .loss = std::nullopt,
            .accuracy = std::nullopt};
  }

  const TrainingSettings& settings() const { return options_.settings; }

  const TrainerOptions options_;
  Link& link_;
  Agreement agreement_;
  const int stages_;
  const bool is_leaf_;
  RunState state_;  // its digest and plateau as they were at the beginning
  const std::int64_t first_step_;
  const std::int64_t steps_ahead_;      // of those that batches of this size would have made
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

double Trainer::seconds_reading() const {
  return impl_->seconds_reading();
}

StepTimes Trainer::step_times() const {
  return impl_->step_times();
}

std::uint64_t Trainer::sample_digest() const {
  return impl_->worker().sample_digest();
}

bool may_update_ahead(const TrainingSettings& settings, const Graph& model) {
  if (!delays_weights(settings.schedule) || !settings.clip_gradient_norm) return false;
  std::map<ValueId, int> uses;
  for (const Op& op : model.ops()) {
    for (const ValueId input : op.inputs)
      if (input != kNoValue && model.value(input).kind == ValueKind::kParameter) ++uses[input];
  }
  const bool shares = std::ranges::any_of(uses, [](const auto& entry) { return entry.second > 1; });
  return !shares && decided_micro_batches(settings) > 1;
}

bool may_update_in_backward(const TrainingSettings& settings, int micro_batches, int clusters) {
  const std::string& mode = settings.averaging.mode;
  const bool averages_gradients = clusters > 1 && mode != "parameters" && mode != "diloco";
  return micro_batches == 1 && !settings.clip_gradient_norm && !averages_gradients;
}

CompileOptions compile_options(TrainingSettings settings, const DataSizes& data, int stage, int stages,
                               const KernelChoice& kernels, const std::optional<ClusterShares>& shares) {
  const ClusterShares used = shares ? *shares : one_cluster(settings.batch_size);
  settings.batch_size = used.own();
  const std::int64_t largest_batch = used.part_of(std::min(used.joint(), data.train_samples)).count;
  const int micro_batches = std::max(1, static_cast<int>(micro_batch_sizes(settings, largest_batch).size()));
  const double staleness = mean_staleness(settings.schedule, stage, stages, micro_batches);
  return {.training_sizes = training_sizes(settings, data, used),
          .inference_sizes = validation_sizes(settings, data, used),
          .slots = slots(settings.schedule, stage, stages, micro_batches),
          .micro_batches = micro_batches,
          .stashes_weights = !is_synchronous(settings.schedule),
          .delays_weights = delays_weights(settings.schedule, stage, stages, micro_batches),
          .updates_ahead = settings.schedule.updates_ahead && stage + 1 < stages,
          .updates_in_backward = may_update_in_backward(settings, micro_batches, used.clusters()),
          .recompute = settings.recompute == "full",
          .kernels = kernels,
          .seed = settings.seed,
          .optimizer = staleness > 0 ? of_old_gradients(settings.optimizer, staleness) : settings.optimizer};
}

}  // namespace rookery
