// The memory that this process has.
#pragma once

#include <cstdint>
#include <filesystem>

namespace rookery {

// Bytes, of /proc/self/status (proc(5)); 0 where the system does not say.
struct ProcessMemory {
  std::int64_t peak = 0;       // VmHWM: resident at most, since the process was started
  std::int64_t resident = 0;   // VmRSS: now
  std::int64_t anonymous = 0;  // RssAnon: the part of it that belongs to no file
  std::int64_t of_files = 0;   // RssFile: the part of it that maps files: program and libraries
};

// `root` is for tests: where /proc is looked for.
ProcessMemory process_memory(const std::filesystem::path& root = "/");

}  // namespace rookery
