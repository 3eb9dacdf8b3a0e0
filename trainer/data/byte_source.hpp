// Reads a file from front to back, inflating it on the way when it is gzip (RFC 1952).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace rookery {

// One thread. Every error is a DataError naming the file: missing, unreadable, cut short, damaged,
// or inflating to more than `max_bytes`.
class ByteSource {
 public:
  // A name that ends in .gz must be gzip; any other is read as it is.
  ByteSource(const std::filesystem::path& path, std::uint64_t max_bytes);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Up to `into.size()` bytes; fewer only at the end of the file.
  std::size_t read(std::span<std::byte> into);
  // Bytes that the file could hold at most, known before it is read: its size, or that times the
  // largest ratio of deflate; never more than `max_bytes`.
  std::uint64_t capacity() const;
  // Bytes read so far.
  std::uint64_t offset() const { return offset_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Stream;
  std::filesystem::path path_;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t max_bytes_;
  std::uint64_t offset_ = 0;
  std::unique_ptr<Stream> stream_;
};

}  // namespace rookery
