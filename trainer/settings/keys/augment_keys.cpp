// The keys of an entry of `augment`: those of the options of each row of augment_kinds().
#include "models/base/check.hpp"
#include "models/base/named_rows.hpp"
#include "trainer/settings/keys/key_builders.hpp"

namespace rookery {
namespace {

AugmentStep& step_of(TrainingSettings& settings) {
  return settings.augment.front();
}

SettingsKey augment_key(const AugmentOption& option) {
  const std::string values = option.is_whole
                                 ? fmt::format("an integer from {} to {}", option.least, option.most)
                                 : fmt::format("a number from {} up to {}", option.least, option.most);
  const Json number{
      {"type", option.is_whole ? "integer" : "number"}, {"minimum", option.least}, {"maximum", option.most}};
  SettingsKey key{.name = option.name, .values = values, .schema = number, .help = option.help};
  if (option.numbers > 1) {
    key.values += ", or a list of such numbers";
    const Json list{{"type", "array"}, {"items", number}, {"minItems", 1}, {"maxItems", option.numbers}};
    key.schema = {{"anyOf", {number, list}}};
  }
  key.example = option.otherwise.front();
  key.read = [name = option.name](const Json& value, TrainingSettings& settings) {
    step_of(settings).options[name] =
        value.is_array() ? value.get<std::vector<double>>() : std::vector{value.get<double>()};
  };
  key.write = [name = option.name,
               is_whole = option.is_whole](const TrainingSettings& settings) -> OrderedJson {
    const std::vector<double>& numbers = option_of(settings.augment.front(), name);
    if (is_whole) return static_cast<std::int64_t>(numbers.front());
    return numbers.size() == 1 ? OrderedJson(numbers.front()) : OrderedJson(numbers);
  };
  return key;
}

// With all its options, so that steps that mean the same are equal.
AugmentStep with_defaults(const std::string& name) {
  AugmentStep step{.name = name, .options = {}};
  const AugmentKind* kind = find_row(augment_kinds(), name);
  ROOKERY_CHECK(kind != nullptr, "there is no augmentation '{}'", name);
  for (const AugmentOption& option : kind->options) step.options[option.name] = option.otherwise;
  return step;
}

SettingsObject make_augment_object() {
  SettingsObject object{
      .name = "augment/N",
      .help =
          "what is done to the images of a data set, a list of steps that follow each other; what is random "
          "only in training, drawn anew for each sample in each epoch",
      .chosen = [](const TrainingSettings& s) { return s.augment.empty() ? "" : s.augment.front().name; },
      .choose = [](const std::string& name, TrainingSettings& s) { s.augment = {with_defaults(name)}; },
      .variants = {}};
  for (const AugmentKind& kind : augment_kinds()) {
    SettingsVariant& variant = object.variants.emplace_back(SettingsVariant{kind.name, kind.help, {}});
    for (const AugmentOption& option : kind.options) variant.keys.push_back(augment_key(option));
  }
  return object;
}

}  // namespace

const SettingsObject& augment_object() {
  static const SettingsObject object = make_augment_object();
  return object;
}

}  // namespace rookery
