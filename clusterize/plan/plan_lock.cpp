#include "clusterize/plan/plan_lock.hpp"

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

constexpr const char* kPlanLock = ".plan.lock";
constexpr const char* kPlanningLock = ".planning.lock";

}  // namespace

FileLock lock_for_running(const std::filesystem::path& node_data, const OnWaiting& on_waiting) {
  FileLock lock(node_data / kPlanLock);
  lock.take(FileLock::Kind::kShared, [&](const std::string& holders) {
    if (on_waiting)
      on_waiting(fmt::format("waiting for {}, which writes a plan into {}", holders, node_data.string()));
  });
  return lock;
}

FileLock lock_for_replacing(const std::filesystem::path& node_data) {
  FileLock lock(node_data / kPlanLock);
  if (lock.try_take(FileLock::Kind::kExclusive)) return lock;
  throw ConfigError(fmt::format(
      "{}: its plan is in use by {}: wait for the end of the run, stop it, or plan in another folder with "
      "--node-data",
      node_data.string(), lock.holders()));
}

FileLock lock_for_planning(const std::filesystem::path& node_data, const OnWaiting& on_waiting) {
  FileLock lock(node_data / kPlanningLock);
  lock.take(FileLock::Kind::kExclusive, [&](const std::string& holders) {
    if (on_waiting)
      on_waiting(fmt::format("waiting for {}, which plans in {}, too", holders, node_data.string()));
  });
  return lock;
}

}  // namespace rookery
