// The keys of `optimizer` and `learning_rate_schedule`.
#include "trainer/settings/key_builders.hpp"

namespace rookery {
namespace {

using S = TrainingSettings;

SettingsKey learning_rate_key() {
  return number_key(
      "learning_rate", {0, Bound::kExcluded, 1000, Bound::kIncluded},
      [](S& s) -> double& { return s.optimizer.learning_rate; }, "size of a step, before its schedule");
}

SettingsKey betas_key() {
  const Range range{0, Bound::kIncluded, 1, Bound::kExcluded};
  return {.name = "betas",
          .values = fmt::format("two numbers, each {}", range.text()),
          .example = {0.9, 0.999},
          .schema = {{"type", "array"}, {"items", range.schema()}, {"minItems", 2}, {"maxItems", 2}},
          .accepts =
              [range](const Json& value) {
                return value.is_array() && value.size() == 2 &&
                       std::ranges::all_of(value, [&](const Json& beta) {
                         return beta.is_number() && range.holds(beta.get<double>());
                       });
              },
          .read =
              [](const Json& value, S& settings) {
                settings.optimizer.beta1 = value.at(0).get<double>();
                settings.optimizer.beta2 = value.at(1).get<double>();
              },
          .write = [](const S& settings) -> OrderedJson {
            return OrderedJson::array({settings.optimizer.beta1, settings.optimizer.beta2});
          },
          .help = "decay of the running means of gradients and of their squares"};
}

SettingsKey epsilon_key() {
  return number_key(
      "epsilon", {0, Bound::kExcluded, 1, Bound::kIncluded},
      [](S& s) -> double& { return s.optimizer.epsilon; }, "keeps the divisor above 0");
}

SettingsKey momentum_key() {
  return number_key(
      "momentum", {0, Bound::kIncluded, 1, Bound::kExcluded},
      [](S& s) -> double& { return s.optimizer.momentum; }, "share of the last step that is kept");
}

SettingsKey weight_decay_key(const std::string& help) {
  return number_key(
      "weight_decay", {0, Bound::kIncluded, 1000, Bound::kIncluded},
      [](S& s) -> double& { return s.optimizer.weight_decay; }, help);
}

SettingsObject make_optimizer_object() {
  const SettingsKey added_decay = weight_decay_key("times the weights, added to the gradients");
  const SettingsKey own_decay =
      weight_decay_key("times the rate, share of the weights that a step takes off");
  const SettingsKey lamb_decay = weight_decay_key("times the weights, added to the direction of the step");
  const SettingsKey dampening = number_key(
      "dampening", {0, Bound::kIncluded, 1, Bound::kIncluded},
      [](S& s) -> double& { return s.optimizer.dampening; },
      "share of a gradient, but the first, that momentum leaves out");
  const SettingsKey nesterov = bool_key(
      "nesterov", [](S& s) -> bool& { return s.optimizer.nesterov; },
      "steps with the momentum of the next step; needs momentum, and no dampening");
  const SettingsKey alpha = number_key(
      "alpha", {0, Bound::kIncluded, 1, Bound::kExcluded},
      [](S& s) -> double& { return s.optimizer.smoothing; },
      "decay of the running mean of squared gradients");
  const SettingsKey centered = bool_key(
      "centered", [](S& s) -> bool& { return s.optimizer.centered; },
      "divides by the estimated variance of gradients in place of their squares");
  return {.name = "optimizer",
          .help =
              "how gradients become steps, as PyTorch defines it; `lamb`: arXiv 1904.00962; `lion`: arXiv "
              "2302.06675",
          .chosen = [](const S& s) { return s.optimizer.name; },
          .choose = [](const std::string& name, S& s) { s.optimizer = optimizer_defaults(name); },
          .variants = {{"adam", {learning_rate_key(), betas_key(), epsilon_key(), added_decay}},
                       {"adamw", {learning_rate_key(), betas_key(), epsilon_key(), own_decay}},
                       {"lamb", {learning_rate_key(), betas_key(), epsilon_key(), lamb_decay}},
                       {"lion", {learning_rate_key(), betas_key(), own_decay}},
                       {"rmsprop",
                        {learning_rate_key(), alpha, epsilon_key(), momentum_key(), centered, added_decay}},
                       {"sgd", {learning_rate_key(), momentum_key(), dampening, nesterov, added_decay}}}};
}

SettingsObject make_schedule_object() {
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
  return {.name = "learning_rate_schedule",
          .help =
              "how the rate changes in a run, as PyTorch defines it; `cosine` and `linear_warmup` fall by a "
              "cosine or evenly after their warm-up, `plateau` drops when an epoch's `metric` gets no better",
          .chosen = [](const S& s) { return s.learning_rate_schedule.name; },
          .choose = [](const std::string& name, S& s) { s.learning_rate_schedule = {.name = name}; },
          .variants = {{"constant", {}},
                       {"step", {step_size, gamma, per}},
                       {"cosine", {warmup, start_factor, end_factor, per}},
                       {"linear_warmup", {warmup, start_factor, end_factor, per}},
                       {"one_cycle", {pct_start, div_factor, final_div_factor, per}},
                       {"plateau",
                        {metric, mode, factor, patience, threshold, threshold_mode, cooldown, min_lr, eps}}}};
}

}  // namespace

const std::vector<SettingsObject>& settings_objects() {
  static const std::vector<SettingsObject> objects{make_optimizer_object(), make_schedule_object()};
  return objects;
}

}  // namespace rookery
