// The keys of `loss`: those of the options of each row of loss_kinds().
#include "models/base/check.hpp"
#include "trainer/settings/keys/key_builders.hpp"

namespace rookery {
namespace {

LossTerm& term_of(TrainingSettings& settings) {
  return settings.loss.terms.front();
}

const LossTerm& term_of(const TrainingSettings& settings) {
  return settings.loss.terms.front();
}

template <typename Field>
SettingsKey name_key(const std::string& name, const std::string& values, const std::string& example,
                     std::int64_t least_length, Field field, const std::string& help) {
  return {.name = name,
          .values = values,
          .example = example,
          .schema = {{"type", "string"}, {"minLength", least_length}},
          .read = reader(field),
          .write = writer(field),
          .help = help};
}

SettingsKey ignore_index_key() {
  SettingsKey key = integer_key(
      "ignore_index", -kMaxExactInteger, kMaxExactInteger,
      [](TrainingSettings& s) -> std::optional<std::int64_t>& { return term_of(s).ignore_index; },
      "positions with this label do not count: the mean is over the others of the whole batch, and 0 where "
      "there are none; null: all count");
  key.values = "an integer, or null";
  key.example = -100;
  return key;
}

SettingsKey pos_weight_key() {
  const NumberRange range{0, Bound::kIncluded, 1e6, Bound::kIncluded};
  return {.name = "pos_weight",
          .values = fmt::format("{}, or a list of such numbers", range.text()),
          .example = 2.5,
          .schema = {{"anyOf",
                      {range.schema(), {{"type", "array"}, {"items", range.schema()}, {"minItems", 1}}}}},
          .read =
              [](const Json& value, TrainingSettings& settings) {
                term_of(settings).pos_weight = value.is_array() ? value.get<std::vector<double>>()
                                                                : std::vector<double>{value.get<double>()};
              },
          .write = [](const TrainingSettings& settings) -> OrderedJson {
            const std::vector<double>& weights = term_of(settings).pos_weight;
            return weights.size() == 1 ? OrderedJson(weights.front()) : OrderedJson(weights);
          },
          .help = "weight of targets of 1: of all, or of each along the output's last axis"};
}

SettingsKey key_of(LossOption option) {
  switch (option) {
    case LossOption::kIgnoreIndex:
      return ignore_index_key();
    case LossOption::kLabelSmoothing:
      return number_key(
          "label_smoothing", {0, Bound::kIncluded, 1, Bound::kIncluded},
          [](TrainingSettings& s) -> double& { return term_of(s).label_smoothing; },
          "share of the target that is spread over all classes");
    case LossOption::kClassAxis:
      return integer_key(
          "class_axis", -kMaxRank, kMaxRank - 1,
          [](TrainingSettings& s) -> std::int64_t& { return term_of(s).class_axis; },
          "of the output, along which the classes lie: -1 for `[n, c]` and a language model's `[n, s, c]`, 1 "
          "for images `[n, c, h, w]`");
    case LossOption::kPosWeight:
      return pos_weight_key();
  }
  ROOKERY_CHECK(false, "option {} of a loss", static_cast<int>(option));
}

SettingsObject make_loss_object() {
  SettingsObject object{
      .name = "loss",
      .help = "a mean, as PyTorch defines it",
      .chosen = [](const TrainingSettings& s) { return term_of(s).name; },
      .choose = [](const std::string& name, TrainingSettings& s) { term_of(s) = LossTerm{.name = name}; },
      .variants = {}};
  for (const LossKind& kind : loss_kinds()) {
    SettingsVariant& variant = object.variants.emplace_back(SettingsVariant{kind.name, kind.help, {}});
    for (const LossOption option : kind.options) variant.keys.push_back(key_of(option));
  }
  return object;
}

std::vector<SettingsKey> make_entry_keys() {
  return {name_key(
              "output", "the name of an output of the model", "logits", 0,
              [](TrainingSettings& s) -> std::string& { return term_of(s).output; },
              "what the loss measures; may be absent where there is one loss and one output"),
          name_key(
              "target", "the name of a tensor", "labels", 1,
              [](TrainingSettings& s) -> std::string& { return term_of(s).target; },
              "what it is compared with: a tensor of the data set, or an input of the model"),
          number_key(
              "weight", {0, Bound::kIncluded, 1e6, Bound::kIncluded},
              [](TrainingSettings& s) -> double& { return term_of(s).weight; },
              "factor in the sum of the losses")};
}

}  // namespace

const SettingsObject& loss_object() {
  static const SettingsObject object = make_loss_object();
  return object;
}

const std::vector<SettingsKey>& loss_entry_keys() {
  static const std::vector<SettingsKey> keys = make_entry_keys();
  return keys;
}

}  // namespace rookery
