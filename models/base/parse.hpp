// What is read from texts: numbers, and what stands between blanks.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace rookery {

// The number that the whole text is, as std::from_chars() reads it: whatever the locale, with no blanks and
// no plus. Nothing where it is none, or none that this type has.
template <typename Number>
std::optional<Number> number_from(std::string_view text) {
  Number number{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  return error == std::errc() && end == last ? std::optional(number) : std::nullopt;
}

// Without the blanks around it, which ends of lines from elsewhere are, too.
inline std::string_view trimmed(std::string_view text) {
  constexpr const char* kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

}  // namespace rookery
