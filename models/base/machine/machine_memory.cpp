#include "models/base/machine/machine_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include "models/base/machine/control_groups.hpp"

namespace rookery {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> mem_available(const fs::path& root) {
  std::ifstream meminfo(root / "proc/meminfo");
  std::string key;
  for (std::string line; std::getline(meminfo, line);) {
    std::istringstream fields(line);
    std::int64_t kilobytes = 0;
    if (fields >> key >> kilobytes && key == "MemAvailable:") return kilobytes * 1024;
  }
  return std::nullopt;
}

// What a control group leaves, by the files that say its limit and its usage.
std::int64_t left_by(const ControlGroup& group) {
  const bool is_new = group.version == 2;
  const auto most = number_in(group.folder / (is_new ? "memory.max" : "memory.limit_in_bytes"));
  const auto used = number_in(group.folder / (is_new ? "memory.current" : "memory.usage_in_bytes"));
  if (!most || !used) return std::numeric_limits<std::int64_t>::max();
  return std::max<std::int64_t>(0, *most - *used);
}

}  // namespace

std::int64_t available_memory(const fs::path& root) {
  std::int64_t available = mem_available(root).value_or(std::numeric_limits<std::int64_t>::max());
  for (const ControlGroup& group : control_groups("memory", root))
    available = std::min(available, left_by(group));
  return available == std::numeric_limits<std::int64_t>::max() ? 0 : available;
}

}  // namespace rookery
