// File functions that fail when a test wants it.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <utility>

#include "models/base/files/file_calls.hpp"

namespace rookery {

// As long as it lives, all files that this process writes are on a disk like this. One thread writes
// meanwhile.
class FailingFiles {
 public:
  static constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

  FailingFiles() : real_(file_calls()) {
    FileCalls& calls = file_calls();
    calls.open = [this](const char* path, int flags, mode_t mode) {
      return descriptors-- > 0 ? real_.open(path, flags, mode) : failed(EMFILE);
    };
    // Bytes that have no room in full are written in part, and the next write fails.
    calls.write = [this](int descriptor, const void* bytes, std::size_t count) -> ssize_t {
      if (count > 0 && room == 0) return failed(ENOSPC);
      if (room == kUnlimited) return real_.write(descriptor, bytes, count);
      const auto part = std::min<std::int64_t>(static_cast<std::int64_t>(count), room);
      room -= part;
      return real_.write(descriptor, bytes, static_cast<std::size_t>(part));
    };
    calls.fallocate = [this](int descriptor, int mode, off_t offset, off_t bytes) {
      return bytes > room ? failed(ENOSPC) : real_.fallocate(descriptor, mode, offset, bytes);
    };
    calls.posix_fallocate = [this](int descriptor, off_t offset, off_t bytes) {
      reserved = bytes;
      return bytes > room ? ENOSPC : real_.posix_fallocate(descriptor, offset, bytes);
    };
    calls.fsync = [this](int descriptor) {
      return failing_flushes-- > 0 ? failed(EIO) : real_.fsync(descriptor);
    };
    calls.rename = [this](const char* from, const char* to) {
      return failing_renames-- > 0 ? failed(EACCES) : real_.rename(from, to);
    };
  }
  ~FailingFiles() { file_calls() = std::move(real_); }
  FailingFiles(const FailingFiles&) = delete;
  FailingFiles& operator=(const FailingFiles&) = delete;

  std::int64_t room = kUnlimited;         // bytes that may still be written
  std::int64_t descriptors = kUnlimited;  // files that may still be opened for writing
  std::int64_t reserved = 0;              // bytes that a file was given beforehand, the last that was
  int failing_flushes = 0;                // of those to come
  int failing_renames = 0;                // likewise

 private:
  static int failed(int reason) {
    errno = reason;
    return -1;
  }

  FileCalls real_;
};

}  // namespace rookery
