#include "models/base/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"

namespace rookery {
namespace {

// The first character of `text` and how many bytes it has; nothing where they are not UTF-8 (RFC 3629).
std::optional<std::pair<char32_t, std::size_t>> first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return std::pair(char32_t{lead}, std::size_t{1});
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return std::nullopt;
  char32_t character = lead & (0xFFU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return std::nullopt;
    character = (character << 6U) | (byte(i) & 0x3FU);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = character >= 0xD800 && character < 0xE000;
  if (character < kLeast.at(size) || character > 0x10FFFF || is_surrogate) return std::nullopt;
  return std::pair(character, size);
}

// Unicode's categories Cc and those of Cf, Zl and Zp that change how the text around them is shown.
bool steers_display(char32_t c) {
  const auto within = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  return c < 0x20 || within(0x7F, 0x9F) || c == 0xAD || c == 0x61C || within(0x200B, 0x200F) ||
         within(0x2028, 0x202E) || within(0x2060, 0x206F) || c == 0xFEFF || within(0xFFF9, 0xFFFB) ||
         within(0xE0000, 0xE007F);
}

// Of ASCII letters, whatever the locale.
std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  std::string shown;
  while (!text.empty()) {
    const auto character = first_character(text);
    const std::size_t size = character ? character->second : 1;
    std::string next(text.substr(0, size));
    if (!character || (size == 1 && steers_display(character->first))) {
      next = fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (steers_display(character->first)) {
      next = fmt::format("\\u{{{:04x}}}", static_cast<std::uint32_t>(character->first));
    }
    if (shown.size() + next.size() > most) return shown + "…";
    shown += next;
    text.remove_prefix(size);
  }
  return shown;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  constexpr std::size_t kMostCandidates = 200;
  const std::string wanted = lower_case(name);
  std::size_t least = name.size() / 3 + 1;
  std::string nearest;
  for (const std::string& candidate : candidates.first(std::min(candidates.size(), kMostCandidates))) {
    if (candidate.size() > 2 * name.size()) continue;
    const std::size_t distance = edit_distance(wanted, lower_case(candidate));
    if (distance >= least) continue;
    least = distance;
    nearest = candidate;
  }
  return nearest;
}

std::string in_quotes(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw DataError("a name in the file is not UTF-8");
  }
}

std::string memory_text(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.3g} MB", bytes / 1e6) : fmt::format("{:.3g} GB", bytes / 1e9);
}

std::string rate_text(double rate) {
  return rate < 99.95 ? fmt::format("{:.3g}", rate) : fmt::format("{:.0f}", rate);
}

std::string percent_text(double share) {
  return rate_text(100 * share) + "%";
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds > 86'400e6) return "for ever";
  if (seconds < 0.9995) return fmt::format("{:.3g} ms", 1e3 * seconds);
  if (seconds < 99.5) return fmt::format("{:.3g} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 86'400) return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {} h", whole / 86'400, whole % 86'400 / 3600);
}

}  // namespace rookery
