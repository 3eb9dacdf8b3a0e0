// fmt, of whose templates those that take long, by their names in fmt 9, are compiled once (format.cpp) and
// not in each file that uses them: include this and not the library's own headers.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

// NOLINTBEGIN(bugprone-macro-parentheses): what would stand in them are keywords and types.
#define ROOKERY_FORMAT(KEYWORDS)                                                                   \
  KEYWORDS void fmt::detail::vformat_to<char>(fmt::detail::buffer<char>&, fmt::string_view,        \
                                              fmt::basic_format_args<fmt::buffer_context<char>>,   \
                                              fmt::detail::locale_ref);                            \
  KEYWORDS fmt::appender fmt::detail::write<char>(fmt::appender, fmt::string_view,                 \
                                                  const fmt::basic_format_specs<char>&);           \
  KEYWORDS fmt::appender fmt::detail::write_escaped_string<char>(fmt::appender, fmt::string_view); \
  KEYWORDS fmt::detail::counting_iterator fmt::detail::write_escaped_string<char>(                 \
      fmt::detail::counting_iterator, fmt::string_view);                                           \
  KEYWORDS auto fmt::formatter<fmt::string_view>::parse(fmt::format_parse_context&)                \
      ->decltype(std::declval<fmt::format_parse_context&>().begin());                              \
  KEYWORDS auto fmt::formatter<std::string>::format(const std::string&, fmt::format_context&)      \
      const->decltype(std::declval<fmt::format_context&>().out());
// NOLINTEND(bugprone-macro-parentheses)

ROOKERY_FORMAT(extern template)
