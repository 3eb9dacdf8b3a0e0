#include "trainer/settings/learning_rate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "models/base/check.hpp"
#include "models/base/error.hpp"

namespace rookery {
namespace {

double linear(double from, double to, double share) {
  return from + (to - from) * share;
}

// Half a cosine from one to the other.
double cosine(double from, double to, double share) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * share)) / 2;
}

// t of the T batches or epochs of a run.
struct Time {
  double t, length;
};

double warm_up_and_decay(double rate, const LearningRateSchedule& schedule, const Time& time,
                         double (*decay)(double, double, double)) {
  const auto warmup = static_cast<double>(schedule.warmup);
  if (time.t < warmup) return linear(rate * schedule.start_factor, rate, time.t / warmup);
  return decay(rate, rate * schedule.end_factor, (time.t - warmup) / (time.length - warmup));
}

double one_cycle(double rate, const LearningRateSchedule& schedule, const Time& time) {
  const double first = rate / schedule.div_factor;
  const double last = first / schedule.final_div_factor;
  const double peak = schedule.pct_start * time.length - 1;
  if (time.t < peak) return cosine(first, rate, time.t / peak);
  if (time.t == peak) return rate;
  return cosine(rate, last, (time.t - peak) / (time.length - 1 - peak));
}

}  // namespace

std::vector<std::string> learning_rate_schedule_names() {
  return {"constant", "step", "cosine", "linear_warmup", "one_cycle", "plateau"};
}

double learning_rate(double rate, const LearningRateSchedule& schedule, std::int64_t step,
                     std::int64_t steps_per_epoch, std::int64_t epochs) {
  ROOKERY_CHECK(step >= 0 && step < steps_per_epoch * epochs, "step {} of {} epochs of {} steps", step,
                epochs, steps_per_epoch);
  const bool by_epoch = schedule.per == "epoch";
  const std::int64_t t = by_epoch ? step / steps_per_epoch : step;
  const Time time{static_cast<double>(t), static_cast<double>(by_epoch ? epochs : epochs * steps_per_epoch)};
  if (schedule.name == "constant" || schedule.name == "plateau") return rate;
  if (schedule.name == "step") {
    const std::int64_t drops = t / schedule.step_size;
    return rate * std::pow(schedule.gamma, static_cast<double>(drops));
  }
  if (schedule.name == "cosine") return warm_up_and_decay(rate, schedule, time, cosine);
  if (schedule.name == "linear_warmup") return warm_up_and_decay(rate, schedule, time, linear);
  if (schedule.name == "one_cycle") return one_cycle(rate, schedule, time);
  throw ConfigError(fmt::format("learning_rate_schedule '{}' is unknown; there are: {}", schedule.name,
                                fmt::join(learning_rate_schedule_names(), ", ")));
}

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
