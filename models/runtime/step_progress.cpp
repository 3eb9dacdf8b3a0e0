#include "models/runtime/step_progress.hpp"

#include <algorithm>
#include <utility>

#include "models/base/check.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

std::string name_of(const MicroBatch& micro_batch) {
  return fmt::format("micro-batch {} of step {}", micro_batch.index, micro_batch.step);
}

bool is_same(const MicroBatch& a, const MicroBatch& b) {
  return a.mode == b.mode && a.step == b.step && a.index == b.index && a.size == b.size && a.slot == b.slot;
}

bool comes_after(const MicroBatch& later, const std::optional<MicroBatch>& before) {
  if (!before) return true;
  return std::pair(later.step, later.index) > std::pair(before->step, before->index);
}

}  // namespace

StepProgress::StepProgress(const Stage& stage, const CompileOptions& options)
    : stage_(stage),
      stashes_weights_(options.stashes_weights),
      accumulates_(options.accumulates()),
      delays_weights_(options.delays_weights),
      updates_ahead_(options.updates_ahead),
      updates_in_backward_(options.updates_in_backward),
      slots_(static_cast<std::size_t>(options.slots)),
      shared_summed_(stage.shared.size(), false) {
  ROOKERY_CHECK(!updates_in_backward_ || !(accumulates_ || updates_ahead_),
                "stage {}: updates in backward, of steps of several micro-batches or ahead of a norm",
                stage.index);
}

const StepProgress::Flight* StepProgress::flight_of(const MicroBatch& micro_batch) const {
  const std::optional<Flight>& flight = slots_.at(micro_batch.slot);
  return flight && is_same(flight->micro_batch, micro_batch) ? &*flight : nullptr;
}

const StepProgress::Flight& StepProgress::in_flight(const MicroBatch& micro_batch, const char* call) const {
  const Flight* flight = flight_of(micro_batch);
  ROOKERY_CHECK(flight != nullptr, "stage {}: {}() of {}, which is not in flight in slot {}", stage_.index,
                call, name_of(micro_batch), micro_batch.slot);
  return *flight;
}

bool StepProgress::any_in_flight() const {
  return std::ranges::any_of(slots_, [](const auto& flight) { return flight.has_value(); });
}

void StepProgress::check_no_weights_due(const MicroBatch& micro_batch, const char* call) const {
  ROOKERY_CHECK(delays_weights_ || weights_due_.empty(),
                "stage {}: {}() of {} before backward_weights() of {}", stage_.index, call,
                name_of(micro_batch), name_of(weights_due_.front()));
}

void StepProgress::check_input(const MicroBatch& micro_batch) const {
  check_no_weights_due(micro_batch, "input");
  if (micro_batch.mode == Mode::kInference) {
    ROOKERY_CHECK(!any_in_flight(), "stage {}: inference while micro-batches are in flight", stage_.index);
    return;
  }
  const std::optional<Flight>& flight = slots_.at(micro_batch.slot);
  ROOKERY_CHECK(!flight, "stage {}: {} in slot {}, where {} is in flight", stage_.index, name_of(micro_batch),
                micro_batch.slot, name_of(flight->micro_batch));
}

void StepProgress::check_forward(const MicroBatch& micro_batch) const {
  check_input(micro_batch);
  check_no_update_begun("forward()");
  if (micro_batch.mode == Mode::kInference) return;
  ROOKERY_CHECK(comes_after(micro_batch, last_forward_), "stage {}: forward() of {} after that of {}",
                stage_.index, name_of(micro_batch), name_of(*last_forward_));
  if (stashes_weights_) return;
  ROOKERY_CHECK(!summed_step_ || micro_batch.step == *summed_step_,
                "stage {}: forward() of {} before the update of step {}", stage_.index, name_of(micro_batch),
                *summed_step_);
  for (const std::optional<Flight>& other : slots_) {
    ROOKERY_CHECK(!other || other->micro_batch.step == micro_batch.step,
                  "stage {}: forward() of {} while {} is in flight", stage_.index, name_of(micro_batch),
                  name_of(other->micro_batch));
  }
}

void StepProgress::note_forward(const MicroBatch& micro_batch) {
  last_inference_.reset();
  to_send_.reset();
  if (micro_batch.mode == Mode::kInference) {
    last_inference_ = micro_batch;
    return;
  }
  slots_.at(micro_batch.slot) = Flight{.micro_batch = micro_batch};
  last_forward_ = micro_batch;
}

void StepProgress::check_output(const MicroBatch& micro_batch) const {
  if (micro_batch.mode == Mode::kTraining) {
    in_flight(micro_batch, "output");
    return;
  }
  ROOKERY_CHECK(last_inference_ && is_same(*last_inference_, micro_batch),
                "stage {}: output() of {}, which was not the last in inference", stage_.index,
                name_of(micro_batch));
}

void StepProgress::check_received_gradient(const MicroBatch& micro_batch) const {
  ROOKERY_CHECK(!in_flight(micro_batch, "output_gradient").has_input_gradients,
                "stage {}: output_gradient() of {} after its backward_inputs()", stage_.index,
                name_of(micro_batch));
}

void StepProgress::check_backward_inputs(const MicroBatch& micro_batch) const {
  check_no_weights_due(micro_batch, "backward_inputs");
  in_flight(micro_batch, "backward_inputs");
  ROOKERY_CHECK(micro_batch.index == 0 || accumulates_,
                "stage {}: backward_inputs() of {}, but the stage was compiled for steps of one micro-batch",
                stage_.index, name_of(micro_batch));
  ROOKERY_CHECK(!summed_step_ || *summed_step_ == micro_batch.step,
                "stage {}: backward_inputs() of {} before the update of step {}", stage_.index,
                name_of(micro_batch), summed_step_.value_or(0));
  ROOKERY_CHECK(!summed_step_ || (!is_finished_ && std::ranges::count(shared_summed_, true) == 0),
                "stage {}: backward_inputs() of {} after gradients of this step were summed", stage_.index,
                name_of(micro_batch));
  ROOKERY_CHECK(comes_after(micro_batch, last_backward_),
                "stage {}: backward_inputs() of {} after that of {}", stage_.index, name_of(micro_batch),
                name_of(*last_backward_));
  ROOKERY_CHECK(!updates_in_backward_ || update_begun_ == micro_batch.step,
                "stage {}: backward_inputs() of {} before begin_update()", stage_.index,
                name_of(micro_batch));
  const bool begins = !summed_step_ && weights_due_.empty();
  const bool follows = begins || micro_batch.index == last_backward_->index + 1;
  ROOKERY_CHECK(follows, "stage {}: backward_inputs() of {} directly after that of {}", stage_.index,
                name_of(micro_batch), name_of(*last_backward_));
}

void StepProgress::note_backward_inputs(const MicroBatch& micro_batch) {
  slots_[micro_batch.slot]->has_input_gradients = true;
  weights_due_.push_back(micro_batch);
  last_backward_ = micro_batch;
  ahead_.reset();
  to_send_ = micro_batch;
  is_finished_ = false;
}

void StepProgress::check_sent_gradient(const MicroBatch& micro_batch) const {
  ROOKERY_CHECK(in_flight(micro_batch, "input_gradient").has_input_gradients,
                "stage {}: input_gradient() of {} before its backward_inputs()", stage_.index,
                name_of(micro_batch));
  ROOKERY_CHECK(to_send_ && is_same(*to_send_, micro_batch),
                "stage {}: input_gradient() of {} after {} was run", stage_.index, name_of(micro_batch),
                to_send_ ? name_of(*to_send_) : "something else");
}

void StepProgress::check_backward_weights(const MicroBatch& micro_batch) const {
  ROOKERY_CHECK(in_flight(micro_batch, "backward_weights").has_input_gradients,
                "stage {}: backward_weights() of {} before its backward_inputs()", stage_.index,
                name_of(micro_batch));
  ROOKERY_CHECK(is_same(weights_due_.front(), micro_batch),
                "stage {}: backward_weights() of {} before that of {}", stage_.index, name_of(micro_batch),
                name_of(weights_due_.front()));
}

void StepProgress::note_backward_weights(const MicroBatch& micro_batch) {
  if (!summed_step_) shared_summed_.assign(shared_summed_.size(), false);
  summed_step_ = micro_batch.step;
  to_send_.reset();
  slots_[micro_batch.slot].reset();
  weights_due_.pop_front();
}

void StepProgress::check_gradients_complete(const char* call) const {
  ROOKERY_CHECK(summed_step_, "stage {}: {} without gradients of a step", stage_.index, call);
  for (const std::optional<Flight>& flight : slots_) {
    ROOKERY_CHECK(!flight || flight->micro_batch.step != *summed_step_, "stage {}: {} while {} is in flight",
                  stage_.index, call, name_of(flight->micro_batch));
  }
}

void StepProgress::check_partial_sum(std::size_t i) const {
  const SharedParameter& shared = stage_.shared.at(i);
  ROOKERY_CHECK(shared.gradient_from != kNoStage, "stage {}: no partial gradient of '{}' arrives",
                stage_.index, shared.parameter);
  check_gradients_complete("partial_sum()");
  ROOKERY_CHECK(!shared_summed_[i], "stage {}: partial_sum() of '{}' after its sum_gradient()", stage_.index,
                shared.parameter);
}

void StepProgress::check_sum(std::size_t i) const {
  check_gradients_complete("sum_gradient()");
  ROOKERY_CHECK(!shared_summed_.at(i), "stage {}: sum_gradient() of '{}' twice in step {}", stage_.index,
                stage_.shared[i].parameter, *summed_step_);
}

void StepProgress::note_sum(std::size_t i) {
  shared_summed_[i] = true;
}

bool StepProgress::finish_gradients() {
  check_gradients_complete("finish_gradients()");
  for (std::size_t i = 0; i < shared_summed_.size(); ++i) {
    ROOKERY_CHECK(shared_summed_[i], "stage {}: step {} ends before sum_gradient() of '{}'", stage_.index,
                  *summed_step_, stage_.shared[i].parameter);
  }
  return !std::exchange(is_finished_, true);
}

void StepProgress::check_finished() const {
  ROOKERY_CHECK(is_finished_, "stage {}: gradient() before finish_gradients()", stage_.index);
}

void StepProgress::check_begin_update(const MicroBatch& micro_batch) const {
  ROOKERY_CHECK(updates_in_backward_,
                "stage {}: begin_update() of step {}, but the stage was not compiled for it", stage_.index,
                micro_batch.step);
  in_flight(micro_batch, "begin_update");
  ROOKERY_CHECK(!summed_step_ && weights_due_.empty(), "stage {}: begin_update() of step {} after a backward",
                stage_.index, micro_batch.step);
  check_no_update_begun("begin_update()");
}

void StepProgress::note_begin_update(std::int64_t step) {
  update_begun_ = step;
}

void StepProgress::check_changeable(const char* call) const {
  ROOKERY_CHECK(!updates_in_backward_, "stage {}: {}, but parameters change in backward", stage_.index, call);
}

void StepProgress::check_update(std::int64_t step) const {
  ROOKERY_CHECK(summed_step_ && *summed_step_ == step,
                "stage {}: update() of step {}, but the gradients are those of step {}", stage_.index, step,
                summed_step_.value_or(-1));
}

void StepProgress::note_update() {
  summed_step_.reset();
  update_begun_.reset();
}

void StepProgress::check_update_ahead(std::int64_t step) const {
  check_update(step);
  ROOKERY_CHECK(updates_ahead_, "stage {}: update_ahead() of step {}, but the stage was not compiled for it",
                stage_.index, step);
}

void StepProgress::note_update_ahead(std::int64_t step) {
  ahead_ = Ahead{.step = step, .last_forward = last_forward_};
}

void StepProgress::check_take_back() const {
  ROOKERY_CHECK(ahead_, "stage {}: take_back_update() without an update_ahead() directly before",
                stage_.index);
}

// Its gradients are still totals.
void StepProgress::note_take_back() {
  slots_.assign(slots_.size(), std::nullopt);
  last_forward_ = ahead_->last_forward;
  last_inference_.reset();
  summed_step_ = ahead_->step;
  ahead_.reset();
}

void StepProgress::check_no_update_begun(const char* call) const {
  ROOKERY_CHECK(!update_begun_, "stage {}: {} between begin_update() and update() of step {}", stage_.index,
                call, update_begun_.value_or(0));
}

void StepProgress::check_replaceable(const char* call) const {
  check_no_update_begun(call);
  ROOKERY_CHECK(stashes_weights_ || !any_in_flight(), "stage {}: {} while micro-batches are in flight",
                stage_.index, call);
}

void StepProgress::check_skip(std::int64_t step) const {
  ROOKERY_CHECK(!any_in_flight(), "stage {}: skip_step() of step {} while micro-batches are in flight",
                stage_.index, step);
  ROOKERY_CHECK(!summed_step_, "stage {}: skip_step() of step {} before the update of step {}", stage_.index,
                step, summed_step_.value_or(0));
}

void StepProgress::note_skip(std::int64_t step) {
  shared_summed_.assign(shared_summed_.size(), false);
  summed_step_ = step;
  is_finished_ = false;
}

}  // namespace rookery
