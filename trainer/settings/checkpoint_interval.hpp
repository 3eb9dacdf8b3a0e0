// The setting `checkpoint_every`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rookery {

struct CheckpointInterval {
  enum class Unit : std::uint8_t { kSeconds, kSteps, kEpochs };
  Unit unit = Unit::kSeconds;
  std::int64_t count = 1;
  bool operator==(const CheckpointInterval&) const = default;
};

// Reads "30 s", "10 min", "2 h", "500 steps" or "1 epoch", which fit the pattern; nothing for "never".
std::optional<CheckpointInterval> checkpoint_interval(const std::string& text);
// A regular expression (ECMA-262) of all of these texts.
std::string checkpoint_interval_pattern();

}  // namespace rookery
