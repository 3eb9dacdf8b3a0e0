#include "trainer/settings/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "models/base/text.hpp"
#include "trainer/settings/settings_keys.hpp"

namespace rookery {
namespace {

constexpr const char* kOptimizerKey = "optimizer";

// Collects what is wrong, so that a file is mended in one go.
class Problems {
 public:
  void add(std::string problem) { problems_.push_back(std::move(problem)); }

  void unknown_key(const std::string& prefix, const std::string& key, std::span<const std::string> known) {
    const auto nearest = std::ranges::min_element(
        known, {}, [&](const std::string& candidate) { return edit_distance(key, candidate); });
    add(fmt::format("{}{}: there is no such key; did you mean '{}'?", prefix, key, *nearest));
  }

  void throw_if_any(std::string_view file) const {
    if (!problems_.empty()) throw ConfigError(fmt::format("{}: {}", file, fmt::join(problems_, "; ")));
  }

 private:
  std::vector<std::string> problems_;
};

std::vector<std::string> names_of(const std::vector<SettingsKey>& keys, const std::string& one_more) {
  std::vector<std::string> names{one_more};
  for (const SettingsKey& key : keys) names.push_back(key.name);
  return names;
}

// Reads every key of `object` that the table has, and complains of the others.
void read_keys(const Json& object, const std::vector<SettingsKey>& keys, const std::string& prefix,
               const std::string& handled_elsewhere, TrainingSettings& settings, Problems& problems) {
  for (const auto& [name, value] : object.items()) {
    if (name == handled_elsewhere) continue;
    const auto key = std::ranges::find(keys, name, &SettingsKey::name);
    if (key == keys.end()) {
      problems.unknown_key(prefix, name, names_of(keys, handled_elsewhere));
    } else if (!key->accepts(value)) {
      problems.add(fmt::format("{}{}: {} is not {}", prefix, name, value.dump(), key->values));
    } else {
      key->read(value, settings);
    }
  }
}

std::string optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerKeys& optimizer : optimizer_keys()) names.push_back(optimizer.name);
  return fmt::format("one of \"{}\"", fmt::join(names, "\", \""));
}

void read_optimizer(const Json& value, TrainingSettings& settings, Problems& problems) {
  if (!value.is_object()) {
    problems.add(
        fmt::format("{}: {} is not an object like {{\"name\": \"adam\"}}", kOptimizerKey, value.dump()));
    return;
  }
  const Json name = value.value("name", Json());
  const auto found =
      std::ranges::find_if(optimizer_keys(), [&](const OptimizerKeys& o) { return name == o.name; });
  if (found == optimizer_keys().end()) {
    problems.add(name.is_null()
                     ? fmt::format("{}/name: is missing; give {}", kOptimizerKey, optimizer_names())
                     : fmt::format("{}/name: {} is not {}", kOptimizerKey, name.dump(), optimizer_names()));
    return;
  }
  settings.optimizer.name = found->name;
  read_keys(value, found->keys, std::string(kOptimizerKey) + "/", "name", settings, problems);
}

Json object_schema(const std::vector<SettingsKey>& keys) {
  Json schema = {{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}};
  for (const SettingsKey& key : keys) {
    schema["properties"][key.name] = key.schema;
    schema["properties"][key.name]["description"] = key.help;
  }
  return schema;
}

std::string reference_row(const std::string& prefix, const SettingsKey& key,
                          const TrainingSettings& defaults) {
  return fmt::format("| `{}{}` | {} | `{}` | {} |\n", prefix, key.name, key.values,
                     key.write(defaults).dump(), key.help);
}

}  // namespace

Json settings_schema() {
  Json schema = object_schema(settings_keys());
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  schema["title"] = "train.json";
  Json& choices = schema["properties"][kOptimizerKey]["oneOf"];
  for (const OptimizerKeys& optimizer : optimizer_keys()) {
    Json choice = object_schema(optimizer.keys);
    choice["properties"]["name"] = {{"const", optimizer.name}};
    choice["required"] = {"name"};
    choices.push_back(choice);
  }
  return schema;
}

std::string settings_reference() {
  const TrainingSettings defaults;
  std::string text = "| key | values | default | meaning |\n|---|---|---|---|\n";
  for (const SettingsKey& key : settings_keys()) text += reference_row("", key, defaults);
  text += fmt::format(
      "| `optimizer/name` | {} | `\"{}\"` | how gradients become steps, as PyTorch defines it |\n",
      optimizer_names(), defaults.optimizer.name);
  for (const OptimizerKeys& optimizer : optimizer_keys()) {
    for (SettingsKey key : optimizer.keys) {
      key.help = optimizer.name + ": " + key.help;
      text += reference_row("optimizer/", key, defaults);
    }
  }
  return text;
}

TrainingSettings settings_from_json(const Json& document, std::string_view file) {
  if (!document.is_object()) throw ConfigError(fmt::format("{}: top level: not an object {{…}}", file));
  TrainingSettings settings;
  Problems problems;
  read_keys(document, settings_keys(), "", kOptimizerKey, settings, problems);
  if (document.contains(kOptimizerKey)) read_optimizer(document[kOptimizerKey], settings, problems);
  if (settings.micro_batches > settings.batch_size) {
    problems.add(fmt::format("micro_batches: {} is more than the {} samples of a batch (batch_size)",
                             settings.micro_batches, settings.batch_size));
  }
  problems.throw_if_any(file);
  validate_json(document, settings_schema(), file);
  return settings;
}

OrderedJson to_json(const TrainingSettings& settings) {
  OrderedJson document;
  for (const SettingsKey& key : settings_keys()) document[key.name] = key.write(settings);
  OrderedJson& optimizer = document[kOptimizerKey];
  optimizer["name"] = settings.optimizer.name;
  const auto found = std::ranges::find(optimizer_keys(), settings.optimizer.name, &OptimizerKeys::name);
  if (found == optimizer_keys().end()) {
    throw ConfigError(
        fmt::format("optimizer/name: \"{}\" is not {}", settings.optimizer.name, optimizer_names()));
  }
  for (const SettingsKey& key : found->keys) optimizer[key.name] = key.write(settings);
  return document;
}

TrainingSettings read_settings(const std::filesystem::path& train_json) {
  return settings_from_json(read_json(train_json), train_json.string());
}

}  // namespace rookery
