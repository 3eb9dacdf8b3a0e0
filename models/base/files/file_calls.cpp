#include "models/base/files/file_calls.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace rookery {

FileCalls& file_calls() {
  static FileCalls calls{
      .open = [](const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); },
      .write = ::write,
      .fallocate = ::fallocate,
      .posix_fallocate = ::posix_fallocate,
      .ftruncate = ::ftruncate,
      .fsync = ::fsync,
      .rename = ::rename};
  return calls;
}

}  // namespace rookery
