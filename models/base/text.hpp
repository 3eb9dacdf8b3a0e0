// Small things about words.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rookery {

// Levenshtein's distance: how many letters must be changed, added or left out to make `b` of `a`. For
// "did you mean".
std::size_t edit_distance(std::string_view a, std::string_view b);

// Text of somebody else, fit for a terminal and a log: control and format characters (ESC, those that change
// the direction of writing, line separators) and what is not UTF-8 become \xNN or \u{NNNN}; what exceeds
// `most` bytes becomes "…".
std::string printable(std::string_view text, std::size_t most);
constexpr std::size_t kMostOfAName = 64;
constexpr std::size_t kMostOfAReason = 1024;

// A text of a file in quotes, for messages; DataError when it is not UTF-8.
std::string quoted(const std::string& text);

}  // namespace rookery
