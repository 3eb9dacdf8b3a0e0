// The description of train.json, for programs (schema) and for people (reference).

#include <algorithm>

#include "models/base/libraries/format.hpp"
#include "models/base/named_rows.hpp"
#include "trainer/settings/keys/key_builders.hpp"

namespace rookery {
namespace {

Json object_schema(const std::vector<SettingsKey>& keys) {
  Json schema = {{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}};
  for (const SettingsKey& key : keys) {
    schema["properties"][key.name] = key.schema;
    schema["properties"][key.name]["description"] = key.help;
  }
  return schema;
}

// A choice for each variant, and their names.
Json variants_schema(const SettingsObject& object) {
  Json choices = Json::array();
  for (const SettingsVariant& variant : object.variants) {
    Json choice = object_schema(variant.keys);
    choice["properties"][object.discriminator] = {{"const", variant.name}};
    choice["required"] = {object.discriminator};
    choices.push_back(choice);
  }
  choices.push_back({{"enum", names_of(object.variants)}});
  return choices;
}

Json loss_schema() {
  Json choices = variants_schema(loss_object());
  Json entry = object_schema(loss_entry_keys());
  entry["properties"]["loss"]["oneOf"] = choices;
  entry["required"] = {"loss"};
  Json list = {{"type", "array"}, {"minItems", 1}};
  list["items"] = entry;
  choices.push_back(list);
  Json schema;
  schema["oneOf"] = choices;
  return schema;
}

Json augment_schema() {
  Json list = {{"type", "array"}};
  list["items"]["oneOf"] = variants_schema(augment_object());
  return list;
}

std::string reference_row(const std::string& key, const std::string& values, const Json& initial,
                          const std::string& help) {
  return fmt::format("| `{}` | {} | `{}` | {} |\n", key, values, initial.dump(), help);
}

// Keys that mean the same in several variants have one row.
std::string object_reference(const SettingsObject& object) {
  struct Row {
    std::string key, values;
    Json initial;
    std::string help;
    std::vector<std::string> variants;
  };
  std::vector<Row> rows;
  for (const SettingsVariant& variant : object.variants) {
    TrainingSettings defaults;
    object.choose(variant.name, defaults);
    for (const SettingsKey& key : variant.keys) {
      const Json initial = key.write(defaults);
      const auto same = std::ranges::find_if(rows, [&](const Row& row) {
        return row.key == key.name && row.initial == initial && row.help == key.help;
      });
      if (same == rows.end()) {
        rows.push_back({key.name, key.values, initial, key.help, {variant.name}});
      } else {
        same->variants.push_back(variant.name);
      }
    }
  }
  std::string text =
      reference_row(object.name + "/" + object.discriminator, object.choices(),
                    object.chosen(TrainingSettings()), object.help + help_of_rows(object.variants));
  for (const Row& row : rows) {
    text += reference_row(object.name + "/" + row.key, row.values, row.initial,
                          fmt::format("{}: {}", fmt::join(row.variants, ", "), row.help));
  }
  return text;
}

}  // namespace

Json settings_schema() {
  Json schema = object_schema(settings_keys());
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  schema["title"] = "train.json";
  schema["properties"][loss_object().name] = loss_schema();
  schema["properties"][kAugmentKey] = augment_schema();
  schema["properties"][kTransportKey] = object_schema(transport_keys());
  for (const SettingsObject& object : settings_objects())
    schema["properties"][object.name]["oneOf"] = variants_schema(object);
  return schema;
}

std::string settings_reference() {
  const TrainingSettings defaults;
  std::string text = "| key | values | default | meaning |\n|---|---|---|---|\n";
  for (const SettingsKey& key : settings_keys()) {
    text += reference_row(key.name, key.values, key.write(defaults), key.help);
  }
  text += object_reference(loss_object());
  for (const SettingsKey& key : loss_entry_keys())
    text += reference_row("loss/N/" + key.name, key.values, key.write(defaults), key.help);
  text += object_reference(augment_object());
  for (const SettingsKey& key : transport_keys())
    text += reference_row(fmt::format("{}/{}", kTransportKey, key.name), key.values, key.write(defaults),
                          key.help);
  for (const SettingsObject& object : settings_objects()) text += object_reference(object);
  return text;
}

}  // namespace rookery
