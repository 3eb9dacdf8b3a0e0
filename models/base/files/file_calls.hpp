// The system calls that files are written with, in one place where tests can let them fail: a disk that is
// full, a write that ends half-way, no descriptor that is left (tests/support/failing_files.hpp).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>

namespace rookery {

// Each as its manual page says, errno included.
struct FileCalls {
  std::function<int(const char* path, int flags, mode_t mode)> open;
  std::function<ssize_t(int descriptor, const void* bytes, std::size_t count)> write;
  std::function<int(int descriptor, int mode, off_t offset, off_t bytes)> fallocate;
  std::function<int(int descriptor, off_t offset, off_t bytes)> posix_fallocate;
  std::function<int(int descriptor, off_t bytes)> ftruncate;
  std::function<int(int descriptor)> fsync;
  std::function<int(const char* from, const char* to)> rename;
};

// The process's own, which are the system's. Only tests change them, while no other thread writes files.
FileCalls& file_calls();

}  // namespace rookery
