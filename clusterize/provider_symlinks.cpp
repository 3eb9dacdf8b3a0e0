#include "clusterize/provider_symlinks.hpp"

#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <system_error>

#include "clusterize/plan/node_metadata.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

namespace fs = std::filesystem;

// CMake's, below which its programs lie; and of somebody who may write there.
bool is_users_build(const fs::path& programs) {
  std::error_code code;
  return fs::exists(programs.parent_path() / "CMakeCache.txt", code) &&
         ::access(programs.c_str(), W_OK | X_OK) == 0;
}

// What a shell in `working` has to be given to start this file.
std::string typed(const fs::path& program, const fs::path& working) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  std::error_code code;
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (fs::equivalent(folder, program.parent_path(), code)) return program.filename().string();
    if (fs::exists(fs::path(folder) / program.filename(), code)) break;  // another one comes first
  }
  const fs::path relative = program.lexically_proximate(working);
  if (relative.is_absolute() || relative.string().starts_with("..")) return program.string();
  return relative.has_parent_path() ? relative.string() : "./" + relative.string();
}

// Why there is no such link; empty when there is.
std::string make_link(const fs::path& link, const fs::path& target) {
  std::error_code code;
  const fs::file_status status = fs::symlink_status(link, code);
  if (fs::is_symlink(status)) {
    const fs::path before = fs::read_symlink(link, code);
    if (before == target) return {};
    if (before.filename() != "provider")
      return fmt::format("{} is there and leads to {}", link.string(), before.string());
    fs::remove(link, code);
  } else if (fs::exists(status)) {
    return fmt::format("{} is there and is no link", link.string());
  }
  fs::create_symlink(target, link, code);
  return code ? fmt::format("cannot make {}: {}", link.string(), code.message()) : std::string();
}

}  // namespace

std::vector<std::string> machine_ids(const ClusterPlan& plan) {
  std::vector<std::string> ids;
  for (const PlannedCluster& cluster : plan.clusters) {
    for (const PlannedStage& stage : cluster.stages) {
      if (machine_of_node(stage.node) == stage.node)
        ids.push_back(stage.node.substr(stage.node.find('_') + 1));
    }
  }
  return ids;
}

ProviderSymlinks make_provider_symlinks(const fs::path& programs, const fs::path& working,
                                        const std::vector<std::string>& ids) {
  const bool beside = is_users_build(programs);
  const fs::path folder = beside ? programs : working;
  const fs::path target = beside ? fs::path("provider") : programs / "provider";
  ProviderSymlinks made{.provider = typed(programs / "provider", working),
                        .launch = typed(programs / "launch", working)};
  for (const std::string& id : ids) {
    const fs::path link = folder / ("provider_" + id);
    made.problem = make_link(link, target);
    if (!made.problem.empty()) return made;
    made.symlinks.push_back(typed(link, working));
  }
  return made;
}

std::string how_to_start(const ProviderSymlinks& made) {
  constexpr std::size_t kMost = 3;
  if (!made.problem.empty()) {
    return fmt::format(
        "Start each node's provider with {} --name node_N, or all of them on this machine with {}.",
        made.provider, made.launch);
  }
  std::string each;
  if (made.symlinks.size() <= kMost) {
    each = fmt::format("{}", fmt::join(made.symlinks, ", "));
  } else {
    each = fmt::format("{}, {} … {}", made.symlinks[0], made.symlinks[1], made.symlinks.back());
  }
  return fmt::format(
      "Start each node's provider with {} ({} --name node_N is the same), or all of them on this machine "
      "with {}.",
      each, made.provider, made.launch);
}

fs::path program_folder() {
  return fs::read_symlink("/proc/self/exe").parent_path();
}

}  // namespace rookery
