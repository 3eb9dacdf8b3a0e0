// Small things about words.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rookery {

// Levenshtein's distance: how many letters must be changed, added or left out to make `b` of `a`. For
// "did you mean".
std::size_t edit_distance(std::string_view a, std::string_view b);

// A text of a file in quotes, for messages; DataError when it is not UTF-8.
std::string quoted(const std::string& text);

}  // namespace rookery
