#include "trainer/settings/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/named_rows.hpp"
#include "trainer/settings/keys/key_builders.hpp"

namespace rookery {
namespace {

double linear(double from, double to, double share) {
  return from + (to - from) * share;
}

// Half a cosine from one to the other.
double cosine(double from, double to, double share) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * share)) / 2;
}

// The t-th of the T batches or epochs of a run.
struct Time {
  double t, length;
};

using Decay = double (*)(double from, double to, double share);

double constant(double rate, const LearningRateSchedule& /*schedule*/, const Time& /*time*/) {
  return rate;
}

double steps(double rate, const LearningRateSchedule& schedule, const Time& time) {
  return rate * std::pow(schedule.gamma, std::floor(time.t / static_cast<double>(schedule.step_size)));
}

template <Decay Fall>
double warm_up_and_decay(double rate, const LearningRateSchedule& schedule, const Time& time) {
  const auto warmup = static_cast<double>(schedule.warmup);
  if (time.t < warmup) return linear(rate * schedule.start_factor, rate, time.t / warmup);
  return Fall(rate, rate * schedule.end_factor, (time.t - warmup) / (time.length - warmup));
}

double one_cycle(double rate, const LearningRateSchedule& schedule, const Time& time) {
  const double first = rate / schedule.div_factor;
  const double last = first / schedule.final_div_factor;
  const double peak = schedule.pct_start * time.length - 1;
  if (time.t < peak) return cosine(first, rate, time.t / peak);
  if (time.t == peak) return rate;
  return cosine(rate, last, (time.t - peak) / (time.length - 1 - peak));
}

struct Kind {
  std::string name;
  std::string help;
  std::vector<SettingsKey> keys;
  double (*rate)(double rate, const LearningRateSchedule& schedule, const Time& time);
};

std::vector<Kind> make_kinds() {
  using S = TrainingSettings;
  constexpr std::int64_t kMostSteps = 1'000'000'000'000;
  const SettingsKey per = choice_key(
      "per", {"batch", "epoch"}, [](S& s) -> std::string& { return s.learning_rate_schedule.per; },
      "what the rate changes with, and lengths count");
  const SettingsKey step_size = integer_key(
      "step_size", 1, kMostSteps, [](S& s) -> std::int64_t& { return s.learning_rate_schedule.step_size; },
      "batches or epochs from one drop to the next");
  const SettingsKey gamma = number_key(
      "gamma", {0, Bound::kExcluded, 1, Bound::kIncluded},
      [](S& s) -> double& { return s.learning_rate_schedule.gamma; }, "factor of the rate at a drop");
  const SettingsKey warmup = integer_key(
      "warmup", 0, kMostSteps, [](S& s) -> std::int64_t& { return s.learning_rate_schedule.warmup; },
      "batches or epochs in which the rate rises evenly");
  const SettingsKey start_factor = number_key(
      "start_factor", {0, Bound::kExcluded, 1, Bound::kIncluded},
      [](S& s) -> double& { return s.learning_rate_schedule.start_factor; },
      "share of the rate at the start of the warm-up");
  const SettingsKey end_factor = number_key(
      "end_factor", {0, Bound::kIncluded, 1, Bound::kIncluded},
      [](S& s) -> double& { return s.learning_rate_schedule.end_factor; },
      "share of the rate that the decay leads to at the end of the run");
  const SettingsKey pct_start = number_key(
      "pct_start", {0, Bound::kIncluded, 1, Bound::kIncluded},
      [](S& s) -> double& { return s.learning_rate_schedule.pct_start; },
      "share of the run in which the rate rises to `learning_rate`");
  const SettingsKey div_factor = number_key(
      "div_factor", {1, Bound::kIncluded, 1e12, Bound::kIncluded},
      [](S& s) -> double& { return s.learning_rate_schedule.div_factor; },
      "`learning_rate` over the rate of the start");
  const SettingsKey final_div_factor = number_key(
      "final_div_factor", {1, Bound::kIncluded, 1e12, Bound::kIncluded},
      [](S& s) -> double& { return s.learning_rate_schedule.final_div_factor; },
      "rate of the start over that of the end");
  const SettingsKey metric = choice_key(
      "metric", {"validation_loss", "validation_accuracy", "training_loss"},
      [](S& s) -> std::string& { return s.learning_rate_schedule.metric; },
      "what is watched at the end of every epoch (`training_loss`) or of those that are validated: the mean "
      "over the samples; `validation_accuracy` is in percent");
  const SettingsKey mode = choice_key(
      "mode", {"min", "max"}, [](S& s) -> std::string& { return s.learning_rate_schedule.mode; },
      "whether less or more of it is better");
  const SettingsKey factor = number_key(
      "factor", {0, Bound::kExcluded, 1, Bound::kExcluded},
      [](S& s) -> double& { return s.learning_rate_schedule.factor; }, "of the rate at a drop");
  const SettingsKey patience = integer_key(
      "patience", 0, kMostSteps, [](S& s) -> std::int64_t& { return s.learning_rate_schedule.patience; },
      "epochs without anything better that are let pass; the next one drops the rate");
  const SettingsKey threshold = number_key(
      "threshold", {0, Bound::kIncluded, 1e12, Bound::kIncluded},
      [](S& s) -> double& { return s.learning_rate_schedule.threshold; }, "by how much better is better");
  const SettingsKey threshold_mode = choice_key(
      "threshold_mode", {"rel", "abs"},
      [](S& s) -> std::string& { return s.learning_rate_schedule.threshold_mode; },
      "whether `threshold` is a share of the best so far");
  const SettingsKey cooldown = integer_key(
      "cooldown", 0, kMostSteps, [](S& s) -> std::int64_t& { return s.learning_rate_schedule.cooldown; },
      "epochs after a drop that do not count");
  const SettingsKey min_lr = number_key(
      "min_lr", {0, Bound::kIncluded, 1000, Bound::kIncluded},
      [](S& s) -> double& { return s.learning_rate_schedule.min_lr; }, "no drop leads below it");
  const SettingsKey eps = number_key(
      "eps", {0, Bound::kIncluded, 1000, Bound::kIncluded},
      [](S& s) -> double& { return s.learning_rate_schedule.eps; },
      "a drop that is not larger is left undone");
  return {{"constant", "", {}, constant},
          {"step", "", {step_size, gamma, per}, steps},
          {"cosine",
           "falls by a cosine after its warm-up",
           {warmup, start_factor, end_factor, per},
           warm_up_and_decay<cosine>},
          {"linear_warmup",
           "falls evenly after its warm-up",
           {warmup, start_factor, end_factor, per},
           warm_up_and_decay<linear>},
          {"one_cycle",
           "rises and falls, and the optimizer's momentum stays (`cycle_momentum=False`)",
           {pct_start, div_factor, final_div_factor, per},
           one_cycle},
          {"plateau",
           "drops when an epoch's `metric` gets no better",
           {metric, mode, factor, patience, threshold, threshold_mode, cooldown, min_lr, eps},
           constant}};
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = make_kinds();
  return all;
}

SettingsObject make_object() {
  SettingsObject object{.name = "learning_rate_schedule",
                        .help = "how the rate changes in a run, as PyTorch defines it",
                        .chosen = [](const TrainingSettings& s) { return s.learning_rate_schedule.name; },
                        .choose = [](const std::string& name,
                                     TrainingSettings& s) { s.learning_rate_schedule = {.name = name}; },
                        .variants = {}};
  for (const Kind& kind : kinds()) object.variants.push_back({kind.name, kind.help, kind.keys});
  return object;
}

}  // namespace

std::vector<std::string> learning_rate_schedule_names() {
  return names_of(kinds());
}

double learning_rate(double rate, const LearningRateSchedule& schedule, std::int64_t step,
                     std::int64_t steps_per_epoch, std::int64_t epochs) {
  ROOKERY_CHECK(step >= 0 && step < steps_per_epoch * epochs, "step {} of {} epochs of {} steps", step,
                epochs, steps_per_epoch);
  const Kind* kind = find_row(kinds(), schedule.name);
  if (kind == nullptr) {
    throw ConfigError(fmt::format("learning_rate_schedule '{}' is unknown; there are: {}", schedule.name,
                                  fmt::join(learning_rate_schedule_names(), ", ")));
  }
  const bool by_epoch = schedule.per == "epoch";
  const std::int64_t t = by_epoch ? step / steps_per_epoch : step;
  return kind->rate(
      rate, schedule,
      {static_cast<double>(t), static_cast<double>(by_epoch ? epochs : epochs * steps_per_epoch)});
}

const SettingsObject& learning_rate_object() {
  static const SettingsObject object = make_object();
  return object;
}

}  // namespace rookery
