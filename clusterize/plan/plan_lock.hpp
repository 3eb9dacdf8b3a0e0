// Locks say who may do what with the plan in a node_data at the same time. All locks end with their process;
// see FileLock.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "models/base/files/file_lock.hpp"

namespace rookery {

// Told, once, what is waited for: "waiting for process 4711 (clusterize), …".
using OnWaiting = std::function<void(const std::string& text)>;

// The lock of those who run the plan or read it: as long as it lives, the plan is not replaced. Waits while
// one is written.
FileLock lock_for_running(const std::filesystem::path& node_data, const OnWaiting& on_waiting);
// The lock of whoever replaces the plan; ConfigError naming the processes that run it.
FileLock lock_for_replacing(const std::filesystem::path& node_data);
// The lock that lets one planner work after the other, from reading its input to writing its plan; beside the
// locks above.
FileLock lock_for_planning(const std::filesystem::path& node_data, const OnWaiting& on_waiting);

}  // namespace rookery
