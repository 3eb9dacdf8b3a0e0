// Rows of the table of keys, by the kind of their value. `Field` takes TrainingSettings& and returns a
// reference to the setting.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "trainer/settings/settings_keys.hpp"

namespace rookery {

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
    key.schema = {{"anyOf", {key.schema, {{"type", "null"}}}}};
    key.accepts = [accepts = key.accepts](const Json& value) { return value.is_null() || accepts(value); };
  }
  return key;
}

inline SettingsKey with_example(SettingsKey key, Json example) {
  key.example = std::move(example);
  return key;
}

template <typename Field>
SettingsKey integer_key(const std::string& name, std::int64_t least, std::int64_t most, Field field,
                        const std::string& help) {
  return completed<Field>(
      {.name = name,
       .values = fmt::format("an integer from {} to {}", least, most),
       .schema = {{"type", "integer"}, {"minimum", least}, {"maximum", most}},
       .accepts =
           [least, most](const Json& value) {
             if (!value.is_number_integer()) return false;
             if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{1} << 62)
               return false;
             return value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most;
           },
       .read = reader(field),
       .write = writer(field),
       .help = help});
}

enum class Bound : bool { kIncluded, kExcluded };

struct Range {
  double least = 0;
  Bound lower = Bound::kIncluded;
  double most = 0;
  Bound upper = Bound::kIncluded;

  bool holds(double value) const {
    return std::isfinite(value) && (lower == Bound::kExcluded ? value > least : value >= least) &&
           (upper == Bound::kExcluded ? value < most : value <= most);
  }
  std::string text() const {
    return fmt::format("a number {} {} and {} {}", lower == Bound::kExcluded ? "above" : "from", least,
                       upper == Bound::kExcluded ? "below" : "up to", most);
  }
  Json schema() const {
    return {{"type", "number"},
            {lower == Bound::kExcluded ? "exclusiveMinimum" : "minimum", least},
            {upper == Bound::kExcluded ? "exclusiveMaximum" : "maximum", most}};
  }
};

template <typename Field>
SettingsKey number_key(const std::string& name, Range range, Field field, const std::string& help) {
  return completed<Field>(
      {.name = name,
       .values = range.text(),
       .schema = range.schema(),
       .accepts =
           [range](const Json& value) { return value.is_number() && range.holds(value.get<double>()); },
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
          .accepts =
              [choices](const Json& value) {
                return value.is_string() && std::ranges::count(choices, value.get<std::string>()) > 0;
              },
          .read = reader(field),
          .write = writer(field),
          .help = help};
}

template <typename Field>
SettingsKey bool_key(const std::string& name, Field field, const std::string& help) {
  return {.name = name,
          .values = "true or false",
          .schema = {{"type", "boolean"}},
          .accepts = [](const Json& value) { return value.is_boolean(); },
          .read = reader(field),
          .write = writer(field),
          .help = help};
}

}  // namespace rookery
