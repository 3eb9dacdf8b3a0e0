// The table of the keys of train.json: one row a key, read by the parser, the schema, the writer
// and the documentation alike. A value is checked by the schema that its row has.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "models/base/libraries/json.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

struct SettingsKey {
  std::string name;    // "batch_size"; keys of an object without "optimizer/"
  std::string values;  // "an integer from 1 to 1048576": completes "… is not"
  Json example;        // of a value, where `values` does not give some; null: it does
  Json schema;         // of the value (JSON Schema, draft 7)
  std::function<void(const Json&, TrainingSettings&)> read;  // of an accepted value
  std::function<OrderedJson(const TrainingSettings&)> write;
  std::string help;
  // Left out where it is null: what does not use the key is written, and digested, as before there was one.
  bool leaves_out_null = false;

  bool accepts(const Json& value) const;
  // `values` with the example.
  std::string wanted() const;
};

// The keys of all but the objects, in the order in which they are written.
const std::vector<SettingsKey>& settings_keys();

// An object whose keys depend on one of them, most often "name".
struct SettingsVariant {
  std::string name;
  std::string help;               // may be empty
  std::vector<SettingsKey> keys;  // besides that one
};
struct SettingsObject {
  std::string name;                    // "optimizer"
  std::string discriminator = "name";  // the key that says which variant it is
  std::string help;                    // of that key, before those of the variants
  std::function<std::string(const TrainingSettings&)> chosen;
  std::function<void(const std::string&, TrainingSettings&)> choose;  // a variant, with its defaults
  std::vector<SettingsVariant> variants;

  // "one of" the names of its variants.
  std::string choices() const;
};
const SettingsObject& optimizer_object();
const SettingsObject& learning_rate_object();
const SettingsObject& averaging_object();
// These, in the order in which they are written.
const std::vector<SettingsObject>& settings_objects();

// `loss` is a name, an object, or a list of losses. Its keys read and write loss.terms.front().
const SettingsObject& loss_object();
// An entry of `augment`, a list. Its keys read and write augment.front().
const SettingsObject& augment_object();
inline constexpr const char* kAugmentKey = "augment";
// The keys of `transport`, an object.
const std::vector<SettingsKey>& transport_keys();
inline constexpr const char* kTransportKey = "transport";
// The keys that an entry of the list of losses has besides its "loss".
const std::vector<SettingsKey>& loss_entry_keys();

}  // namespace rookery
