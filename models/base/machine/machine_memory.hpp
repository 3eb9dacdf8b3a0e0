// Tells how much memory a program may take on this machine.
#pragma once

#include <cstdint>
#include <filesystem>

namespace rookery {

// Bytes: what is available without swapping (MemAvailable of /proc/meminfo), or what the limits of the
// control groups that this process is in leave (version 1 and 2), whichever is less; 0 when the system does
// not say. `root` is for tests: where /proc and /sys are looked for.
std::int64_t available_memory(const std::filesystem::path& root = "/");

}  // namespace rookery
