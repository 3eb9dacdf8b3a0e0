// Whether what a provider is told of the plan fits together: members, rings, routing. Internal to this
// module.
#pragma once

#include <string_view>
#include <utility>

#include "clusterize/plan/node_metadata.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {

// ConfigError naming the file, what is wrong in it, and the way out.
template <typename... Args>
[[noreturn]] void fail_metadata(std::string_view file, fmt::format_string<Args...> format, Args&&... args) {
  throw ConfigError(
      fmt::format("{}: {}: run clusterize again", file, fmt::format(format, std::forward<Args>(args)...)));
}

// ConfigError by fail_metadata() where numbers, members, rings or routing contradict each other.
void check_metadata(const NodeMetadata& metadata, std::string_view file);

}  // namespace rookery
