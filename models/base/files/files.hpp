// Files that are never half-written: written beside, flushed to the disk, renamed into place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace rookery {

// A file under construction, without a name where the file system can do that and else at PATH.tmp-<pid>;
// commit() makes it PATH, and a file that is not committed is removed. Every error is a DataError that names
// the file and the reason. One thread.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  // Takes the room for so many bytes now; commit() gives back what was not written.
  AtomicFile(std::filesystem::path path, std::uint64_t reserved);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // Flushes to the disk and renames over `path`. Takes no descriptor.
  void commit();
  const std::filesystem::path& path() const { return path_; }

 private:
  [[noreturn]] void fail(std::string_view doing) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  bool is_named_ = false;  // temporary_ is there
  std::uint64_t reserved_ = 0;
  std::uint64_t written_ = 0;
};

void write_file(const std::filesystem::path& path, std::string_view text);

// The whole file; DataError when it is missing, unreadable or larger than `max_bytes`.
std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes);

// The same file once more, without taking room on the disk where the file system has hard links; a copy where
// it has not. `to` is not there yet. DataError when that fails.
void link_file(const std::filesystem::path& from, const std::filesystem::path& to);

// Flushes to the disk which files the folder has, so that a committed one is there after a power cut, too.
// DataError when that fails; a file system that cannot flush folders is left alone.
void flush_folder(const std::filesystem::path& path);

// Makes the folder and its parents; DataError when that fails.
void make_directories(const std::filesystem::path& path);

}  // namespace rookery
