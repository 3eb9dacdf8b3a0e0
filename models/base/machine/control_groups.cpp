#include "models/base/machine/control_groups.hpp"

#include <fstream>
#include <string>

namespace rookery {
namespace {

namespace fs = std::filesystem;

void add_up_to(const fs::path& top, const fs::path& group, int version, std::vector<ControlGroup>& all) {
  for (fs::path path = (top / group.relative_path()).lexically_normal();; path = path.parent_path()) {
    all.push_back({path, version});
    if (path == top || path == path.parent_path()) return;
  }
}

}  // namespace

std::vector<ControlGroup> control_groups(std::string_view controller, const fs::path& root) {
  std::vector<ControlGroup> all;
  std::ifstream groups(root / "proc/self/cgroup");
  // "0::/user.slice" of version 2, "4:memory:/docker/1a2b" of version 1.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) {
      add_up_to(root / "sys/fs/cgroup", group, 2, all);
    } else if ((',' + controllers + ',').find("," + std::string(controller) + ",") != std::string::npos) {
      add_up_to(root / "sys/fs/cgroup" / controller, group, 1, all);
    }
  }
  return all;
}

std::optional<std::int64_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  std::int64_t number = 0;
  if (!(stream >> number) || number < 0) return std::nullopt;
  return number;
}

}  // namespace rookery
