#include "trainer/stage_worker.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <numeric>
#include <utility>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/passes/loss.hpp"
#include "trainer/schedule/old_gradients.hpp"
#include "trainer/timer.hpp"

namespace rookery {
namespace {

template <typename Port>
std::optional<std::size_t> index_of(const std::vector<Port>& ports, const std::string& value) {
  const auto found = std::ranges::find(ports, value, &Port::value);
  if (found == ports.end()) return std::nullopt;
  return static_cast<std::size_t>(found - ports.begin());
}

MessageKey key_of(MessageKind kind, const MicroBatch& micro_batch, const std::string& value) {
  return {.kind = kind,
          .validation = micro_batch.mode == Mode::kInference,
          .step = micro_batch.step,
          .micro_batch = micro_batch.index,
          .edge = value};
}

std::int64_t sum_of(std::span<const std::int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

}  // namespace

WorkTimes& WorkTimes::operator+=(const WorkTimes& other) {
  forward += other.forward;
  backward += other.backward;
  update += other.update;
  waiting += other.waiting;
  waiting_for_later += other.waiting_for_later;
  validation += other.validation;
  micro_batches += other.micro_batches;
  updates += other.updates;
  staleness += other.staleness;
  return *this;
}

WorkTimes WorkTimes::operator-(const WorkTimes& before) const {
  return {.forward = forward - before.forward,
          .backward = backward - before.backward,
          .update = update - before.update,
          .waiting = waiting - before.waiting,
          .waiting_for_later = waiting_for_later - before.waiting_for_later,
          .validation = validation - before.validation,
          .micro_batches = micro_batches - before.micro_batches,
          .updates = updates - before.updates,
          .staleness = staleness - before.staleness};
}

StageWorker::StageWorker(Executable& executable, Link& link, ScheduleSettings schedule, FillInput fill_input,
                         std::optional<double> clip_gradient_norm, ClusterPlace place,
                         std::int64_t norm_every)
    : executable_(executable),
      link_(link),
      stage_(executable.stage()),
      schedule_(std::move(schedule)),
      fill_input_(std::move(fill_input)),
      place_(place),
      exchange_(executable, link,
                {clip_gradient_norm, is_synchronous(schedule_), schedule_.updates_ahead && stage_.count > 1},
                place.averager, norm_every) {
  ROOKERY_CHECK(!schedule_.updates_ahead || (stage_.shared.empty() && place.averager == nullptr),
                "updates ahead of the norm, of what other stages or clusters share");
  sample_ids_ = index_of(stage_.inputs, kSampleIds);
  for (const LossOp& loss : losses_of(stage_.graph)) {
    observed_.push_back({.loss = index_of(stage_.outputs, loss.value).value(),
                         .hits = loss.hits ? index_of(stage_.outputs, *loss.hits) : std::nullopt,
                         .weight = loss.weight});
  }
}

StageWorker::Batch StageWorker::make_batch(Mode mode, std::int64_t step, std::span<const std::int64_t> sizes,
                                           std::int64_t mean_over) const {
  Batch batch{.result = {.losses = std::vector<LossResult>(observed_.size()), .samples = sum_of(sizes)}};
  batch.mean_over = std::max(mean_over, batch.result.samples);
  for (const std::int64_t size : sizes) {
    const double share = static_cast<double>(size) / static_cast<double>(batch.mean_over);
    batch.micro_batches.push_back({.mode = mode,
                                   .step = step,
                                   .index = static_cast<int>(batch.micro_batches.size()),
                                   .size = size,
                                   .loss_weight = static_cast<float>(share),
                                   .preceding = place_.preceding});
  }
  return batch;
}

void StageWorker::train(const TrainingRun& run) {
  std::deque<Batch> under_way;  // begun, and not updated
  std::int64_t begun = 0;
  std::int64_t number = 0;    // of micro-batches begun
  std::int64_t forwards = 0;  // that have run
  // Where other stages use its parameters too, a batch has one version of them on all.
  const bool is_by_batch = !stage_.shared.empty();
  const auto begin = [&] {
    const std::vector<std::int64_t> sizes = run.begin(begun);
    under_way.push_back(
        make_batch(Mode::kTraining, run.first_step + begun, sizes, run.mean_over ? run.mean_over(begun) : 0));
    under_way.back().staleness = std::ssize(under_way) - 1;
    std::vector<MicroBatch>& micro_batches = under_way.back().micro_batches;
    const int count =
        slots(schedule_, stage_.index, stage_.count, std::max(1, static_cast<int>(micro_batches.size())));
    for (MicroBatch& micro_batch : micro_batches) micro_batch.slot = static_cast<int>(number++ % count);
    // What updates before the run have changed is not known where it goes on from a checkpoint.
    const std::int64_t staleness = under_way.back().staleness;
    if (is_by_batch && staleness > 0 && begun > staleness)
      executable_.predict_weights(predicted_updates(static_cast<double>(staleness)));
    // Parameters that later stages borrow are to be as old as what this stage's forward uses.
    if (begun > 0) exchange_.spread_parameters(run.first_step + begun - 1);
    ++begun;
  };
  std::int64_t step = run.first_step;
  try {
    begin();
    const auto micro_batches = static_cast<int>(under_way.front().micro_batches.size());
    if (micro_batches == 0) return skip(run, under_way.front().result);
    Schedule schedule(schedule_, stage_.index, stage_.count, run.batches, micro_batches);
    const int ahead = forwards_ahead(schedule_, stage_.index, stage_.count, micro_batches);
    const double staleness = mean_staleness(schedule_, stage_.index, stage_.count, micro_batches);
    const bool predicts = !is_by_batch && staleness > 0;
    executable_.expect_prediction(
        predicts && place_.averager == nullptr ? std::optional(predicted_updates(staleness)) : std::nullopt);
    while (const std::optional<Action> action = schedule.next()) {
      step = run.first_step + action->batch;
      if (action->batch == begun) begin();
      const auto place = static_cast<std::size_t>(std::ssize(under_way) - (begun - action->batch));
      Batch& batch = under_way.at(place);
      const bool is_ahead = action->kind == ActionKind::kForward && action->micro_batch < ahead;
      if (!is_ahead || stage_.is_leaf()) settle(&batch);
      if (action->kind == ActionKind::kForward) {
        ++forwards;
        times_.staleness += is_by_batch ? batch.staleness : static_cast<std::int64_t>(place);
      }
      act(run, *action, batch);
      if (action->kind != ActionKind::kUpdate) continue;
      under_way.pop_front();
      if (predicts && forwards < run.batches * micro_batches)
        executable_.predict_weights(predicted_updates(staleness), true);
    }
    exchange_.spread_parameters(run.first_step + run.batches - 1);
  } catch (Error& error) {
    error.add_context(fmt::format("stage {}: step {}", stage_.index, step));
    throw;
  }
}

void StageWorker::act(const TrainingRun& run, const Action& action, Batch& batch) {
  const MicroBatch& micro_batch = batch.micro_batches.at(action.micro_batch);
  switch (action.kind) {
    case ActionKind::kForward:
      forward(batch, micro_batch, true);
      ++batch.forwards;
      observe(micro_batch, batch);
      break;
    case ActionKind::kBackwardInputs:
      if (executable_.updates_in_backward()) {
        const std::int64_t step = micro_batch.step;
        executable_.begin_update(micro_batch, run.learning_rate(step), exchange_.wants_squares(step));
      }
      backward_inputs(batch, micro_batch);
      break;
    case ActionKind::kBackwardWeights: {
      const ComputeTurn::Hold turn = scheduled_turn(batch);
      const ActionTimer timed = timer(times_.backward, action.kind, micro_batch);
      executable_.backward_weights(micro_batch, done_of(batch, micro_batch));
      ++times_.micro_batches;
      break;
    }
    case ActionKind::kUpdate: {
      ROOKERY_CHECK(&micro_batch == &batch.micro_batches.back(), "batches of a run differ in micro-batches");
      exchange_.finish_gradients(micro_batch.step);
      update(run, micro_batch);
      // Of a mean over more samples it is a share until here.
      batch.result.scale(static_cast<double>(batch.mean_over) / static_cast<double>(batch.result.samples));
      run.end(batch.result);
      break;
    }
  }
}

// What is to be called in the last backward of a batch whose gradients the clusters sum.
Executable::GradientDone StageWorker::done_of(const Batch& batch, const MicroBatch& micro_batch) const {
  const bool sums = place_.averager != nullptr && place_.averager->sums_gradients();
  if (!sums || &micro_batch != &batch.micro_batches.back()) return nullptr;
  return [this](const std::string& parameter) { place_.averager->after_gradient_of(parameter); };
}

// `last`: of the step's micro-batches.
void StageWorker::update(const TrainingRun& run, const MicroBatch& last) {
  const double learning_rate = run.learning_rate(last.step);
  const bool is_ahead = exchange_.is_norm_late();
  if (is_ahead) begin_ahead(learning_rate, last.step);
  {
    const ComputeTurn::Hold turn = turn_between();
    const ActionTimer timed = timer(times_.update, ActionKind::kUpdate, last);
    if (is_ahead)
      update_ahead(learning_rate, last.step);
    else
      executable_.update(last.step, learning_rate);
    ++times_.updates;
  }
  if (place_.averager != nullptr) place_.averager->after_update(last.step);
}

// The Leaf begins a step last: it alone has the time to wait for the norm, without its machine's turn, which
// others may need to end theirs.
void StageWorker::begin_ahead(double learning_rate, std::int64_t step) {
  ahead_ = Ahead{.step = step, .learning_rate = learning_rate, .sample_digest = sample_digest_};
  if (stage_.is_leaf()) ahead_->factor = exchange_.take_late_factor();
}

void StageWorker::update_ahead(double learning_rate, std::int64_t step) {
  if (!stage_.is_leaf()) return executable_.update_ahead(step, learning_rate);
  if (ahead_->factor) executable_.scale_gradients(*ahead_->factor);
  executable_.update(step, learning_rate);
}

void StageWorker::settle(Batch* batch) {
  if (!ahead_) return;
  // Where others' squares do not come it stays unsettled.
  const std::optional<float> factor = stage_.is_leaf() ? ahead_->factor : exchange_.take_late_factor();
  const Ahead made = *std::exchange(ahead_, std::nullopt);
  if (!factor) return;
  if (!stage_.is_leaf()) {
    const ComputeTurn::Hold turn = turn_between();
    const Timer timer(times_.update);
    executable_.take_back_update();
    executable_.scale_gradients(*factor);
    executable_.update(made.step, made.learning_rate);
    sample_digest_ = made.sample_digest;
  }
  if (batch != nullptr) run_again(*batch);
}

// What earlier stages have sent for nothing is taken in the order in which it was sent: little of it may be
// under way at a time.
void StageWorker::run_again(Batch& batch) {
  const std::span<const MicroBatch> all = batch.micro_batches;
  const auto count = static_cast<int>(all.size());
  for (const MicroBatch& unused : all.subspan(static_cast<std::size_t>(batch.forwards))) {
    for (std::size_t i = 0; i < stage_.inputs.size(); ++i) {
      const StageInput& input = stage_.inputs[i];
      if (input.from == kNoStage ||
          unused.index >= forwards_ahead(schedule_, input.from, stage_.count, count))
        continue;
      receive(input.from, MessageKind::kForwardActivation, unused, input.value, executable_.input(i, unused));
    }
  }
  batch.runs_again = true;
  for (const MicroBatch& begun : all.first(static_cast<std::size_t>(batch.forwards)))
    forward(batch, begun, false);
}

// The forwards that a stage runs ahead are those that it runs again.
MessageKind StageWorker::activation_kind(const Batch& batch, const MicroBatch& micro_batch,
                                         int from_stage) const {
  const auto count = static_cast<int>(batch.micro_batches.size());
  const bool is_again =
      batch.runs_again && micro_batch.index < forwards_ahead(schedule_, from_stage, stage_.count, count);
  return is_again ? MessageKind::kForwardActivationAgain : MessageKind::kForwardActivation;
}

ActionTimer StageWorker::timer(double& total, ActionKind kind, const MicroBatch& micro_batch) const {
  WorkTrace* const trace = micro_batch.mode == Mode::kTraining ? trace_ : nullptr;
  return {total, trace, {kind, micro_batch.step, micro_batch.index}};
}

// The clusters that have samples make an update; where gradients are summed it is this one's, too.
void StageWorker::skip(const TrainingRun& run, const BatchResult& result) {
  ROOKERY_CHECK(run.batches == 1 && place_.averager != nullptr, "a step without samples");
  if (place_.averager->sums_gradients()) {
    executable_.skip_step(run.first_step);
    exchange_.finish_gradients(run.first_step);
    update(run, {.step = run.first_step});
  } else {
    place_.averager->after_update(run.first_step);
  }
  run.end(result);
  exchange_.spread_parameters(run.first_step);
}

BatchResult StageWorker::train(std::int64_t step, double learning_rate, std::span<const std::int64_t> sizes) {
  BatchResult made;
  train({.first_step = step,
         .batches = 1,
         .begin = [&](std::int64_t) { return std::vector<std::int64_t>(sizes.begin(), sizes.end()); },
         .learning_rate = [&](std::int64_t) { return learning_rate; },
         .end = [&](const BatchResult& result) { made = result; }});
  return made;
}

BatchResult StageWorker::validate(std::int64_t number, std::span<const std::int64_t> sizes,
                                  std::int64_t samples) {
  return with_context(fmt::format("stage {}: validation batch {}", stage_.index, number), [&] {
    Batch batch = make_batch(Mode::kInference, number, sizes, samples);
    for (const MicroBatch& micro_batch : batch.micro_batches) {
      forward(batch, micro_batch, false);
      observe(micro_batch, batch);
    }
    return batch.result;
  });
}

WorkTimes StageWorker::times() const {
  WorkTimes times = times_;
  times.waiting += exchange_.seconds_waiting();
  times.waiting_for_later += exchange_.seconds_waiting_for_later();
  return times;
}

ComputeTurn::Hold StageWorker::scheduled_turn(const Batch& batch) const {
  if (turn_ == nullptr) return {};
  const MicroBatch& first = batch.micro_batches.front();
  return turn_->take(stage_.index, first.step, static_cast<int>(batch.micro_batches.size()));
}

ComputeTurn::Hold StageWorker::turn_between() const {
  return turn_ == nullptr ? ComputeTurn::Hold() : turn_->take_between();
}

void StageWorker::forward(const Batch& batch, const MicroBatch& micro_batch, bool is_scheduled) {
  for (std::size_t i = 0; i < stage_.inputs.size(); ++i) {
    const StageInput& input = stage_.inputs[i];
    const TensorView into = executable_.input(i, micro_batch);
    if (input.from == kNoStage) {
      const Timer timer(micro_batch.mode == Mode::kTraining ? times_.forward : times_.validation);
      write_from_host(into, [&](TensorView host) { fill_input_(micro_batch, input.value, host); });
    } else {
      receive(input.from, activation_kind(batch, micro_batch, input.from), micro_batch, input.value, into);
    }
  }
  digest_samples(micro_batch);
  {
    const ComputeTurn::Hold turn = is_scheduled ? scheduled_turn(batch) : turn_between();
    double& total = micro_batch.mode == Mode::kTraining ? times_.forward : times_.validation;
    const ActionTimer timed = timer(total, ActionKind::kForward, micro_batch);
    executable_.forward(micro_batch);
  }
  for (std::size_t i = 0; i < stage_.outputs.size(); ++i) {
    const StageOutput& output = stage_.outputs[i];
    const MessageKey key =
        key_of(activation_kind(batch, micro_batch, stage_.index), micro_batch, output.value);
    if (output.to.empty()) continue;
    const HostTensor sent(executable_.output(i, micro_batch));
    for (const int to : output.to) link_.send(to, key, sent.view());
  }
}

void StageWorker::backward_inputs(const Batch& batch, const MicroBatch& micro_batch) {
  constexpr MessageKind kKind = MessageKind::kBackwardGradient;
  for (std::size_t i = 0; i < stage_.outputs.size(); ++i) {
    const StageOutput& output = stage_.outputs[i];
    if (output.gradient_from == kNoStage) continue;
    receive(output.gradient_from, kKind, micro_batch, output.value,
            executable_.output_gradient(i, micro_batch));
  }
  for (std::size_t i = 0; i < stage_.inputs.size(); ++i) {
    const StageInput& input = stage_.inputs[i];
    if (input.gradient_from == kNoStage) continue;
    receive(input.gradient_from, kKind, micro_batch, input.value,
            executable_.partial_gradient(i, micro_batch));
  }
  {
    const ComputeTurn::Hold turn = scheduled_turn(batch);
    const Executable::GradientDone done = done_of(batch, micro_batch);
    if (done) place_.averager->before_last_gradients(micro_batch.step);
    const ActionTimer timed = timer(times_.backward, ActionKind::kBackwardInputs, micro_batch);
    executable_.backward_inputs(micro_batch, done);
  }
  for (std::size_t i = 0; i < stage_.inputs.size(); ++i) {
    const StageInput& input = stage_.inputs[i];
    if (input.gradient_to == kNoStage) continue;
    link_.send(input.gradient_to, key_of(kKind, micro_batch, input.value),
               HostTensor(executable_.input_gradient(i, micro_batch)).view());
  }
}

void StageWorker::receive(int from_stage, MessageKind kind, const MicroBatch& micro_batch,
                          const std::string& value, TensorView into) {
  double seconds = 0;
  {
    const Timer timer(seconds);
    write_from_host(
        into, [&](TensorView host) { link_.receive(from_stage, key_of(kind, micro_batch, value), host); });
  }
  times_.waiting += seconds;
  if (from_stage > stage_.index) times_.waiting_for_later += seconds;
}

void StageWorker::digest_samples(const MicroBatch& micro_batch) {
  if (!sample_ids_) return;
  const HostTensor ids(executable_.input(*sample_ids_, micro_batch));
  if (!sample_digest_) sample_digest_.emplace();
  for (const std::int64_t id : ids.view().as<std::int64_t>())
    sample_digest_->add_unit(static_cast<std::uint64_t>(id));
}

void StageWorker::observe(const MicroBatch& micro_batch, Batch& batch) {
  const double share = static_cast<double>(micro_batch.size) / static_cast<double>(batch.mean_over);
  for (std::size_t i = 0; i < observed_.size(); ++i) {
    const HostTensor output(executable_.output(observed_[i].loss, micro_batch));
    const double loss = share * double{output.view().as<float>().front()};
    LossResult part{.loss = loss};
    if (observed_[i].hits) {
      const HostTensor hits(executable_.output(*observed_[i].hits, micro_batch));
      part.correct = hits.view().as<std::int64_t>()[0];
      part.positions = hits.view().as<std::int64_t>()[1];
    }
    batch.result.losses[i].add(part);
    batch.result.loss += observed_[i].weight * loss;
  }
}

}  // namespace rookery
