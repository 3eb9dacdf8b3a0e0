// Reads a file from front to back, inflating it on the way when it is gzip (RFC 1952).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "trainer/storage/random_file.hpp"

namespace rookery {

// Does this name say that the content is gzip?
bool is_gzip_name(std::string_view name);

// One thread; a far file is read ahead by others. Every error is a DataError naming the file: unreadable, cut
// short, damaged, or inflating to more than `max_bytes`.
class ByteSource {
 public:
  // A name that ends in .gz or .tgz must be gzip; any other is read as it is.
  ByteSource(SharedFile file, std::uint64_t max_bytes);
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
  const std::string& name() const;

 private:
  class Stream;
  std::uint64_t max_bytes_;
  std::uint64_t offset_ = 0;
  std::unique_ptr<Stream> stream_;
};

}  // namespace rookery
