#include "trainer/progress/plateau.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace rookery {

Plateau::Plateau(double rate, LearningRateSchedule schedule)
    : rate_(rate),
      schedule_(std::move(schedule)),
      best_(schedule_.mode == "min" ? std::numeric_limits<double>::infinity()
                                    : -std::numeric_limits<double>::infinity()) {}

void Plateau::note(double metric) {
  if (is_better(metric)) {
    best_ = metric;
    bad_epochs_ = 0;
  } else {
    ++bad_epochs_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ > schedule_.patience) drop();
}

Plateau::Memory Plateau::memory() const {
  return {.best = std::isfinite(best_) ? std::optional(best_) : std::nullopt,
          .bad_epochs = bad_epochs_,
          .cooldown_left = cooldown_left_};
}

void Plateau::go_on(double rate, const Memory& memory) {
  rate_ = rate;
  best_ = memory.best.value_or(best_);
  bad_epochs_ = memory.bad_epochs;
  cooldown_left_ = memory.cooldown_left;
}

bool Plateau::is_better(double metric) const {
  const bool is_smaller = schedule_.mode == "min";
  const double margin = is_smaller ? -schedule_.threshold : schedule_.threshold;
  double bar = best_;
  // The best is infinitely bad at first, and no threshold makes that a bar.
  if (std::isfinite(best_)) bar = schedule_.threshold_mode == "rel" ? best_ * (1 + margin) : best_ + margin;
  return is_smaller ? metric < bar : metric > bar;
}

void Plateau::drop() {
  const double lower = std::max(rate_ * schedule_.factor, schedule_.min_lr);
  if (rate_ - lower > schedule_.eps) rate_ = lower;
  cooldown_left_ = schedule_.cooldown;
  bad_epochs_ = 0;
}

}  // namespace rookery
