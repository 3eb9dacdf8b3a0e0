// Files without a name: what was fetched or unpacked, on this machine's disk as long as it is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "trainer/storage/random_file.hpp"

namespace rookery {

// Lies in $TMPDIR, by default /var/tmp, and is gone with the object, or with the process. Written by any
// threads at places of their own; read when it is written. DataError when there is no room.
class TemporaryFile : public RandomFile {
 public:
  // Reads as the content of `name`.
  explicit TemporaryFile(std::string name);
  ~TemporaryFile() override;
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  void set_size(std::uint64_t bytes) { size_ = bytes; }

  std::uint64_t size() const override { return size_; }
  std::uint64_t version() const override { return 0; }
  void read(std::uint64_t offset, std::span<std::byte> into) const override;
  // By which this process opens it.
  std::filesystem::path path() const;

 private:
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

// A folder in the same place, which is the caller's to remove. DataError.
std::filesystem::path make_temporary_folder();

// The same content on this machine.
std::shared_ptr<const TemporaryFile> fetched(const RandomFile& file);

}  // namespace rookery
