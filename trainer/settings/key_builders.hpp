// Rows of the table of keys, by the kind of their value. `Field` takes TrainingSettings& and returns a
// reference to the setting.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "trainer/settings/settings_keys.hpp"

namespace rookery {

template <typename Field>
auto reader(Field field) {
  return [field](const Json& value, TrainingSettings& settings) {
    using Type = std::remove_reference_t<decltype(field(settings))>;
    field(settings) = value.get<Type>();
  };
}

template <typename Field>
auto writer(Field field) {
  return [field](const TrainingSettings& settings) -> OrderedJson {
    TrainingSettings copy = settings;
    return field(copy);
  };
}

template <typename Field>
SettingsKey integer_key(const std::string& name, std::int64_t least, std::int64_t most, Field field,
                        const std::string& help) {
  return {.name = name,
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
          .help = help};
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
  return {
      .name = name,
      .values = range.text(),
      .schema = range.schema(),
      .accepts = [range](const Json& value) { return value.is_number() && range.holds(value.get<double>()); },
      .read = reader(field),
      .write = writer(field),
      .help = help};
}

// Null is no number; `Field` gives a std::optional<double>&.
template <typename Field>
SettingsKey optional_number_key(const std::string& name, Range range, Field field, const std::string& help) {
  return {.name = name,
          .values = range.text() + ", or null",
          .schema = {{"anyOf", {range.schema(), {{"type", "null"}}}}},
          .accepts =
              [range](const Json& value) {
                return value.is_null() || (value.is_number() && range.holds(value.get<double>()));
              },
          .read =
              [field](const Json& value, TrainingSettings& settings) {
                field(settings) = value.is_null() ? std::nullopt : std::optional(value.get<double>());
              },
          .write = [field](const TrainingSettings& settings) -> OrderedJson {
            TrainingSettings copy = settings;
            const std::optional<double> number = field(copy);
            return number ? OrderedJson(*number) : OrderedJson();
          },
          .help = help};
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
