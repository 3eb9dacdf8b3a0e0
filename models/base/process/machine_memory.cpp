#include "models/base/process/machine_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

namespace rookery {
namespace {

namespace fs = std::filesystem;

// The whole number that a file holds; nothing when there is none, or "max".
std::optional<std::int64_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  std::int64_t number = 0;
  if (!(stream >> number) || number < 0) return std::nullopt;
  return number;
}

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

// What a control group and those above it leave, by the names of the files that say limit and usage.
std::int64_t left_by(const fs::path& top, const fs::path& group, const char* limit, const char* usage) {
  std::int64_t left = std::numeric_limits<std::int64_t>::max();
  for (fs::path path = (top / group.relative_path()).lexically_normal();; path = path.parent_path()) {
    const auto most = number_in(path / limit);
    const auto used = number_in(path / usage);
    if (most && used) left = std::min(left, std::max<std::int64_t>(0, *most - *used));
    if (path == top || path == path.parent_path()) return left;
  }
}

}  // namespace

std::int64_t available_memory(const fs::path& root) {
  std::int64_t available = mem_available(root).value_or(std::numeric_limits<std::int64_t>::max());
  std::ifstream groups(root / "proc/self/cgroup");
  // "0::/user.slice" of version 2, "4:memory:/docker/1a2b" of version 1.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) {
      available = std::min(available, left_by(root / "sys/fs/cgroup", group, "memory.max", "memory.current"));
    } else if ((',' + controllers + ',').find(",memory,") != std::string::npos) {
      available = std::min(available, left_by(root / "sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
                                              "memory.usage_in_bytes"));
    }
  }
  return available == std::numeric_limits<std::int64_t>::max() ? 0 : available;
}

}  // namespace rookery
