// Files that are never half-written: written beside, flushed to the disk, renamed into place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace rookery {

// A file under construction at PATH.tmp-<pid>; commit() makes it PATH, and a file that is not
// committed is removed. Every error is a DataError that names the file and the reason. One thread.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // Flushes to the disk and renames over `path`.
  void commit();

 private:
  [[noreturn]] void fail(std::string_view doing) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

void write_file(const std::filesystem::path& path, std::string_view text);

// The whole file; DataError when it is missing, unreadable or larger than `max_bytes`.
std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes);

// Makes the folder and its parents; DataError when that fails.
void make_directories(const std::filesystem::path& path);

}  // namespace rookery
