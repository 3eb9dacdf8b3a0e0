// Rows of the table of keys, by the kind of their value. `Field` takes TrainingSettings& and returns a
// reference to the setting.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "trainer/settings/keys/settings_keys.hpp"

namespace rookery {

constexpr std::int64_t kMaxExactInteger = (1LL << 53) - 1;  // what JSON carries without loss (RFC 8259, 6)

template <typename T>
constexpr bool kIsOptional = false;
template <typename T>
constexpr bool kIsOptional<std::optional<T>> = true;

template <typename Field>
using FieldType = std::remove_reference_t<std::invoke_result_t<Field, TrainingSettings&>>;

template <typename Field>
auto reader(Field field) {
  return [field](const Json& value, TrainingSettings& settings) {
    using Type = FieldType<Field>;
    if constexpr (!kIsOptional<Type>) {
      field(settings) = value.get<Type>();
    } else {
      field(settings) = value.is_null() ? std::nullopt : Type(value.get<typename Type::value_type>());
    }
  };
}

template <typename Field>
auto writer(Field field) {
  return [field](const TrainingSettings& settings) -> OrderedJson {
    TrainingSettings copy = settings;
    if constexpr (!kIsOptional<FieldType<Field>>) {
      return field(copy);
    } else {
      return field(copy) ? OrderedJson(*field(copy)) : OrderedJson();
    }
  };
}

// Its example is its default; a key whose setting may be nothing may be null.
template <typename Field>
SettingsKey completed(SettingsKey key) {
  key.example = key.write(TrainingSettings());
  if constexpr (kIsOptional<FieldType<Field>>) {
    key.values += ", or null";
    Json null;
    null["type"] = "null";
    Json either = Json::array({std::move(key.schema), std::move(null)});
    key.schema = Json();
    key.schema["anyOf"] = std::move(either);
  }
  return key;
}

// "; `adam`: …; `sgd`: …": the help of a table's rows that have some, behind that of the table.
template <typename Row>
std::string help_of_rows(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows) {
    if (!row.help.empty()) text += fmt::format("; `{}`: {}", row.name, row.help);
  }
  return text;
}

inline SettingsKey with_example(SettingsKey key, Json example) {
  key.example = std::move(example);
  return key;
}

template <typename Field>
SettingsKey integer_key(const std::string& name, std::int64_t least, std::int64_t most, Field field,
                        const std::string& help) {
  return completed<Field>({.name = name,
                           .values = fmt::format("an integer from {} to {}", least, most),
                           .schema = {{"type", "integer"}, {"minimum", least}, {"maximum", most}},
                           .read = reader(field),
                           .write = writer(field),
                           .help = help});
}

enum class Bound : bool { kIncluded, kExcluded };

struct NumberRange {
  double least = 0;
  Bound lower = Bound::kIncluded;
  double most = 0;
  Bound upper = Bound::kIncluded;

  std::string text() const {
    return fmt::format("a number {} {} and {} {}", lower == Bound::kExcluded ? "above" : "from", least,
                       upper == Bound::kExcluded ? "below" : "up to", most);
  }
  Json schema() const {
    Json schema{{"type", "number"}};
    schema[lower == Bound::kExcluded ? "exclusiveMinimum" : "minimum"] = least;
    schema[upper == Bound::kExcluded ? "exclusiveMaximum" : "maximum"] = most;
    return schema;
  }
};

template <typename Field>
SettingsKey number_key(const std::string& name, NumberRange range, Field field, const std::string& help) {
  return completed<Field>({.name = name,
                           .values = range.text(),
                           .schema = range.schema(),
                           .read = reader(field),
                           .write = writer(field),
                           .help = help});
}

template <typename Field>
SettingsKey choice_key(const std::string& name, const std::vector<std::string>& choices, Field field,
                       const std::string& help) {
  return {.name = name,
          .values = fmt::format("one of \"{}\"", fmt::join(choices, "\", \"")),
          .schema = {{"type", "string"}, {"enum", choices}},
          .read = reader(field),
          .write = writer(field),
          .help = help};
}

template <typename Field>
SettingsKey bool_key(const std::string& name, Field field, const std::string& help) {
  return {.name = name,
          .values = "true or false",
          .schema = {{"type", "boolean"}},
          .read = reader(field),
          .write = writer(field),
          .help = help};
}

}  // namespace rookery
