// nlohmann-json, of whose templates those that take long are compiled once (json.cpp) and not in each file
// that uses them: include this and not the library's own header.
#pragma once

#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

// NOLINTBEGIN(bugprone-macro-parentheses): what would stand in them are keywords and types.
#define ROOKERY_JSON_PARSER(KEYWORDS, Json, Iterator)                                               \
  KEYWORDS class nlohmann::detail::lexer<Json, nlohmann::detail::iterator_input_adapter<Iterator>>; \
  KEYWORDS class nlohmann::detail::parser<Json, nlohmann::detail::iterator_input_adapter<Iterator>>;

#define ROOKERY_JSON(KEYWORDS, Json)                                             \
  KEYWORDS Json::basic_json(const Json&);                                        \
  KEYWORDS Json::basic_json(Json::initializer_list_t, bool, Json::value_t);      \
  KEYWORDS Json::json_value::json_value(Json::value_t);                          \
  KEYWORDS void Json::json_value::destroy(Json::value_t);                        \
  KEYWORDS Json::reference Json::operator[](Json::size_type);                    \
  KEYWORDS Json::reference Json::operator[](std::string);                        \
  KEYWORDS Json::reference Json::at(Json::size_type);                            \
  KEYWORDS Json::const_reference Json::at(Json::size_type) const;                \
  KEYWORDS Json::const_reference Json::at(const std::string&) const;             \
  KEYWORDS void Json::push_back(Json&&);                                         \
  KEYWORDS void Json::push_back(const Json&);                                    \
  KEYWORDS bool Json::operator==(Json::const_reference) const noexcept;          \
  KEYWORDS std::string Json::dump(int, char, bool, Json::error_handler_t) const; \
  KEYWORDS class nlohmann::detail::serializer<Json>;                             \
  KEYWORDS class nlohmann::detail::json_sax_dom_parser<Json>;                    \
  KEYWORDS class nlohmann::detail::json_sax_dom_callback_parser<Json>;           \
  ROOKERY_JSON_PARSER(KEYWORDS, Json, std::string::const_iterator)               \
  ROOKERY_JSON_PARSER(KEYWORDS, Json, const char*)
// NOLINTEND(bugprone-macro-parentheses)

ROOKERY_JSON(extern template, nlohmann::basic_json<>)
ROOKERY_JSON(extern template, nlohmann::basic_json<nlohmann::ordered_map>)

namespace rookery {

// The integer that `json` is: of what no schema was checked, since get() makes one of every number.
// nlohmann::json::type_error where it is none, or not of this type.
template <std::integral Integer, typename AnyJson>
Integer integer_from(const AnyJson& json) {
  const bool fits = json.is_number_unsigned() ? std::in_range<Integer>(json.template get<std::uint64_t>())
                                              : json.is_number_integer() &&
                                                    std::in_range<Integer>(json.template get<std::int64_t>());
  if (!fits)
    throw nlohmann::json::type_error::create(
        302, (json.is_number() ? json.dump() : json.type_name()) + std::string(" is no integer in range"),
        &json);
  return json.template get<Integer>();
}

}  // namespace rookery
