// The control groups (cgroups(7)) that this process is in, whose limits hold for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace rookery {

struct ControlGroup {
  std::filesystem::path folder;  // of its files
  int version = 2;
};

// Its own and all above it that limit what `controller` ("memory", "cpu") hands out, of version 1 and 2.
// `root`: where /proc and /sys are looked for.
std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::filesystem::path& root = "/");

// The whole number that a file begins with; nothing when there is none, a negative one, or "max".
std::optional<std::int64_t> number_in(const std::filesystem::path& file);

}  // namespace rookery
