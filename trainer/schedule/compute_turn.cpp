#include "trainer/schedule/compute_turn.hpp"

#include <utility>

#include "trainer/schedule/machine_order.hpp"

namespace rookery {

ComputeTurn::Hold::Hold(Hold&& other) noexcept : turn_(std::exchange(other.turn_, nullptr)) {}

ComputeTurn::Hold::~Hold() {
  if (turn_ != nullptr) turn_->release();
}

ComputeTurn::ComputeTurn(ScheduleSettings schedule, int machine, int stages)
    : schedule_(std::move(schedule)), machine_(machine), stages_(stages) {}

ComputeTurn::Hold ComputeTurn::take(int stage, std::int64_t step, int micro_batches) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_abandoned_ || (!is_taken_ && is_next(stage, step, micro_batches)); });
  is_taken_ = true;
  ++done_;
  return Hold(*this);
}

ComputeTurn::Hold ComputeTurn::take_between() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_abandoned_ || !is_taken_; });
  is_taken_ = true;
  return Hold(*this);
}

void ComputeTurn::abandon() {
  const std::scoped_lock lock(mutex_);
  is_abandoned_ = true;
  changed_.notify_all();
}

// The first stage to come to a step tells how many micro-batches that has.
bool ComputeTurn::is_next(int stage, std::int64_t step, int micro_batches) {
  if (done_ == order_.size() && step > step_) {
    step_ = step;
    done_ = 0;
    order_.clear();
    for (const StageAction& action : machine_order(schedule_, machine_, stages_, micro_batches))
      order_.push_back(action.stage);
  }
  return step == step_ && done_ < order_.size() && order_[done_] == stage;
}

void ComputeTurn::release() {
  const std::scoped_lock lock(mutex_);
  is_taken_ = false;
  changed_.notify_all();
}

}  // namespace rookery
