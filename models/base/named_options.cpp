#include "models/base/named_options.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/parse.hpp"

namespace rookery {
namespace {

// ConfigError for what is not one number in the range.
template <typename Number>
Number parse(const std::string& of, const std::string& key, const std::string& text, Number least,
             Number most) {
  const std::optional<Number> number = number_from<Number>(text);
  if (!number || !(*number >= least && *number <= most)) {
    throw ConfigError(fmt::format("{}: option {}: '{}' is not {} from {} to {}", of, key, text,
                                  std::is_integral_v<Number> ? "an integer" : "a number", least, most));
  }
  return *number;
}

}  // namespace

NamedOptions::NamedOptions(std::string_view text) {
  const std::size_t mark = text.rfind('?');
  name_ = text.substr(0, mark);
  if (mark == std::string_view::npos) return;
  std::string_view rest = text.substr(mark + 1);
  while (!rest.empty()) {
    const std::string_view option = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(option.size() + 1, rest.size()));
    const std::size_t equals = option.find('=');
    if (equals == std::string_view::npos || equals == 0)
      throw ConfigError(fmt::format("{}: '{}' is not KEY=VALUE", name_, option));
    const std::string key(option.substr(0, equals));
    if (!given_.emplace(key, option.substr(equals + 1)).second)
      throw ConfigError(fmt::format("{}: option {} is there twice", name_, key));
  }
}

const std::string* NamedOptions::find(const std::string& key) const {
  const auto found = given_.find(key);
  return found == given_.end() ? nullptr : &found->second;
}

void NamedOptions::note(const std::string& key, const std::string& value) {
  known_.push_back(key);
  asked_.push_back(fmt::format("{}={}", key, value));
}

std::int64_t NamedOptions::integer(const std::string& key, std::int64_t otherwise, std::int64_t least,
                                   std::int64_t most) {
  const std::string* text = find(key);
  const std::int64_t value = text != nullptr ? parse(name_, key, *text, least, most) : otherwise;
  note(key, fmt::format("{}", value));
  return value;
}

double NamedOptions::number(const std::string& key, double otherwise, double least, double most) {
  const std::string* text = find(key);
  const double value = text != nullptr ? parse(name_, key, *text, least, most) : otherwise;
  note(key, fmt::format("{:g}", value));
  return value;
}

std::string NamedOptions::choice(const std::string& key, const std::string& otherwise,
                                 std::span<const std::string> choices) {
  const std::string* text = find(key);
  std::string value = text != nullptr ? *text : otherwise;
  if (std::ranges::find(choices, value) == choices.end()) {
    throw ConfigError(
        fmt::format("{}: option {}: '{}' is none of: {}", name_, key, value, fmt::join(choices, ", ")));
  }
  note(key, value);
  return value;
}

void NamedOptions::expect_none_left() const {
  for (const auto& [key, value] : given_) {
    if (std::ranges::find(known_, key) != known_.end()) continue;
    throw ConfigError(
        fmt::format("{} has no option '{}'; {}", name_, key,
                    known_.empty() ? "it has none" : fmt::format("there are: {}", fmt::join(known_, ", "))));
  }
}

}  // namespace rookery
