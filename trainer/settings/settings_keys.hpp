// The table of the keys of train.json: one row a key, read by the parser, the schema, the writer
// and the documentation alike.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/settings/settings.hpp"

namespace rookery {

struct SettingsKey {
  std::string name;    // "batch_size"; keys of an object without "optimizer/"
  std::string values;  // "an integer from 1 to 1048576": completes "… is not"
  Json example;        // of a value, where `values` does not give some; null: it does
  Json schema;         // of the value
  std::function<bool(const Json&)> accepts;
  std::function<void(const Json&, TrainingSettings&)> read;  // of an accepted value
  std::function<OrderedJson(const TrainingSettings&)> write;
  std::string help;

  // `values` with the example.
  std::string wanted() const;
};

// All but the objects, in the order in which they are written.
const std::vector<SettingsKey>& settings_keys();

// An object whose keys depend on its "name".
struct SettingsVariant {
  std::string name;
  std::vector<SettingsKey> keys;  // besides "name"
};
struct SettingsObject {
  std::string name;  // "optimizer"
  std::string help;  // of its "name"
  std::function<std::string(const TrainingSettings&)> chosen;
  std::function<void(const std::string&, TrainingSettings&)> choose;  // a variant, with its defaults
  std::vector<SettingsVariant> variants;
};
const std::vector<SettingsObject>& settings_objects();

// `loss` is a name, an object, or a list of losses. The keys here read and write loss.terms.front().
const SettingsObject& loss_object();
// What an entry of the list has besides its "loss".
const std::vector<SettingsKey>& loss_entry_keys();

}  // namespace rookery
