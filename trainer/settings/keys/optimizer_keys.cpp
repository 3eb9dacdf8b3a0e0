// The keys of `optimizer`: those of the options of each row of optimizer_kinds().
#include "models/base/check.hpp"
#include "trainer/settings/keys/key_builders.hpp"

namespace rookery {
namespace {

SettingsKey betas_key() {
  const NumberRange range{0, Bound::kIncluded, 1, Bound::kExcluded};
  return {.name = "betas",
          .values = fmt::format("two numbers, each {}", range.text()),
          .example = {0.9, 0.999},
          .schema = {{"type", "array"}, {"items", range.schema()}, {"minItems", 2}, {"maxItems", 2}},
          .read =
              [](const Json& value, TrainingSettings& settings) {
                settings.optimizer.beta1 = value.at(0).get<double>();
                settings.optimizer.beta2 = value.at(1).get<double>();
              },
          .write = [](const TrainingSettings& settings) -> OrderedJson {
            return OrderedJson::array({settings.optimizer.beta1, settings.optimizer.beta2});
          },
          .help = "decay of the running means of gradients and of their squares"};
}

SettingsKey weight_decay_key(const std::string& help) {
  return number_key(
      "weight_decay", {0, Bound::kIncluded, 1000, Bound::kIncluded},
      [](TrainingSettings& s) -> double& { return s.optimizer.weight_decay; }, help);
}

SettingsKey key_of(OptimizerOption option) {
  const NumberRange share{0, Bound::kIncluded, 1, Bound::kExcluded};
  switch (option) {
    case OptimizerOption::kLearningRate:
      return number_key(
          "learning_rate", {0, Bound::kExcluded, 1000, Bound::kIncluded},
          [](TrainingSettings& s) -> double& { return s.optimizer.learning_rate; },
          "size of a step, before its schedule");
    case OptimizerOption::kBetas:
      return betas_key();
    case OptimizerOption::kEpsilon:
      return number_key(
          "epsilon", {0, Bound::kExcluded, 1, Bound::kIncluded},
          [](TrainingSettings& s) -> double& { return s.optimizer.epsilon; }, "keeps the divisor above 0");
    case OptimizerOption::kMomentum:
      return number_key(
          "momentum", share, [](TrainingSettings& s) -> double& { return s.optimizer.momentum; },
          "share of the last step that is kept");
    case OptimizerOption::kDampening:
      return number_key(
          "dampening", {0, Bound::kIncluded, 1, Bound::kIncluded},
          [](TrainingSettings& s) -> double& { return s.optimizer.dampening; },
          "share of a gradient, but the first, that momentum leaves out");
    case OptimizerOption::kNesterov:
      return bool_key(
          "nesterov", [](TrainingSettings& s) -> bool& { return s.optimizer.nesterov; },
          "steps with the momentum of the next step; needs momentum, and no dampening");
    case OptimizerOption::kSmoothing:
      return number_key(
          "alpha", share, [](TrainingSettings& s) -> double& { return s.optimizer.smoothing; },
          "decay of the running mean of squared gradients");
    case OptimizerOption::kCentered:
      return bool_key(
          "centered", [](TrainingSettings& s) -> bool& { return s.optimizer.centered; },
          "divides by the estimated variance of gradients in place of their squares");
    case OptimizerOption::kDecayInGradients:
      return weight_decay_key("times the weights, added to the gradients");
    case OptimizerOption::kDecayOfWeights:
      return weight_decay_key("times the rate, share of the weights that a step takes off");
    case OptimizerOption::kDecayInDirection:
      return weight_decay_key("times the weights, added to the direction of the step");
  }
  ROOKERY_CHECK(false, "option {} of an optimizer", static_cast<int>(option));
}

SettingsObject make_optimizer_object() {
  SettingsObject object{
      .name = "optimizer",
      .help = "how gradients become steps, as PyTorch defines it",
      .chosen = [](const TrainingSettings& s) { return s.optimizer.name; },
      .choose = [](const std::string& name, TrainingSettings& s) { s.optimizer = optimizer_defaults(name); },
      .variants = {}};
  for (const OptimizerKind& kind : optimizer_kinds()) {
    SettingsVariant& variant = object.variants.emplace_back(SettingsVariant{kind.name, kind.help, {}});
    for (const OptimizerOption option : kind.options) variant.keys.push_back(key_of(option));
  }
  return object;
}

}  // namespace

const SettingsObject& optimizer_object() {
  static const SettingsObject object = make_optimizer_object();
  return object;
}

}  // namespace rookery
