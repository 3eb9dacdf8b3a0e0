#include "trainer/settings/learning_rate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <numbers>

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
  return {"constant", "step", "cosine", "linear_warmup", "one_cycle"};
}

double learning_rate(double rate, const LearningRateSchedule& schedule, std::int64_t step,
                     std::int64_t steps_per_epoch, std::int64_t epochs) {
  ROOKERY_CHECK(step >= 0 && step < steps_per_epoch * epochs, "step {} of {} epochs of {} steps", step,
                epochs, steps_per_epoch);
  const bool by_epoch = schedule.per == "epoch";
  const std::int64_t t = by_epoch ? step / steps_per_epoch : step;
  const Time time{static_cast<double>(t), static_cast<double>(by_epoch ? epochs : epochs * steps_per_epoch)};
  if (schedule.name == "constant") return rate;
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

}  // namespace rookery
