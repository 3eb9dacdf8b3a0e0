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
  std::string name;    // "batch_size"; keys of the optimizer without "optimizer/"
  std::string values;  // "an integer from 1 to 1048576": completes "… is not"
  Json schema;         // of the value
  std::function<bool(const Json&)> accepts;
  std::function<void(const Json&, TrainingSettings&)> read;  // of an accepted value
  std::function<OrderedJson(const TrainingSettings&)> write;
  std::string help;
};

// All but `optimizer`, in the order in which they are written.
const std::vector<SettingsKey>& settings_keys();

struct OptimizerKeys {
  std::string name;
  std::vector<SettingsKey> keys;  // besides "name"
};
const std::vector<OptimizerKeys>& optimizer_keys();

}  // namespace rookery
