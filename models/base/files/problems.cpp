#include "models/base/files/problems.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/text.hpp"

namespace rookery {
void Problems::add(std::string_view place, std::string_view text) {
  problems_.push_back(place.empty() ? std::string(text) : fmt::format("{}: {}", place, text));
}

void Problems::add_unknown_key(std::string_view place, const std::string& key,
                               std::span<const std::string> known) {
  const std::string meant = nearest_name(key, known);
  add(fmt::format("{}{}{}", place, place.empty() ? "" : "/", printable(key, kMostOfAName)),
      meant.empty() ? fmt::format("there is no such key; there are {}", fmt::join(known, ", "))
                    : fmt::format("there is no such key; did you mean '{}'?", meant));
}

void Problems::throw_if_any(std::string_view file) const {
  constexpr std::size_t kMostTold = 10;
  if (problems_.empty()) return;
  const std::span<const std::string> told(problems_.data(), std::min(problems_.size(), kMostTold));
  std::string text = fmt::format("{}: {}", file, fmt::join(told, "; "));
  if (told.size() < problems_.size())
    text += fmt::format("; and {} more problems", problems_.size() - told.size());
  throw ConfigError(text);
}

std::string shown(const Json& value) {
  constexpr std::size_t kMostBytes = 80;
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), kMostBytes);
}

}  // namespace rookery
