// Texts for messages: near names, printable text, sizes and durations.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace rookery {

// Levenshtein's distance: how many letters must be changed, added or left out to make `b` of `a`. For
// "did you mean".
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate that `name` was perhaps meant to be: no more than a third of its letters differ, capitals
// and small ones being the same. Empty where none is so near. Looks at the first 200.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

// Text of somebody else, fit for a terminal and a log: control and format characters (ESC, those that change
// the direction of writing, line separators) and what is not UTF-8 become \xNN or \u{NNNN}; what exceeds
// `most` bytes becomes "…".
std::string printable(std::string_view text, std::size_t most);
constexpr std::size_t kMostOfAName = 64;
constexpr std::size_t kMostOfAReason = 1024;

// A text of a file in quotes, for messages; DataError when it is not UTF-8.
std::string in_quotes(const std::string& text);

// "1.25 GB", "3.5 MB"
std::string memory_text(double bytes);

// "7.25", "1340": of samples a second, say
std::string rate_text(double rate);

// "12.5%", "100%", "2300%" of 0.125, 1 and 23
std::string percent_text(double share);

// "1 d 2 h", "3 h 20 min", "4 min 5 s", "7.32 s", "12.5 ms"
std::string duration_text(double seconds);

}  // namespace rookery
