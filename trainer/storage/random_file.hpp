// The bytes of one file at any place, wherever it lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace rookery {

// Any number of threads at once. Every error is a DataError that names the file.
class RandomFile {
 public:
  explicit RandomFile(std::string name) : name_(std::move(name)) {}
  virtual ~RandomFile() = default;
  RandomFile(const RandomFile&) = delete;
  RandomFile& operator=(const RandomFile&) = delete;

  virtual std::uint64_t size() const = 0;
  // Another one when the content has changed.
  virtual std::uint64_t version() const = 0;
  // Fills `into` with what stands from `offset` on, all of which lies within the file.
  virtual void read(std::uint64_t offset, std::span<std::byte> into) const = 0;
  // Does reading wait for something other than a disk, so that several readings at once are faster?
  virtual bool is_far() const { return false; }

  // As messages name it.
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

using SharedFile = std::shared_ptr<const RandomFile>;

// A file of this machine. DataError when it is missing or no file.
SharedFile open_local_file(const std::filesystem::path& path);

// A stretch of another file, which it keeps open.
SharedFile part_of_file(SharedFile whole, std::uint64_t offset, std::uint64_t bytes, std::string name);

// Its content; DataError when that is more than `most` bytes.
std::string read_whole(const RandomFile& file, std::uint64_t most);

// What is worth asking a far file for at once, and how often at the same time.
constexpr std::size_t kFarPiece = 4U << 20;
constexpr int kFarReadings = 4;
// How many small files of a server are asked for at once: with two readers, 1000 a second at 30 ms an answer.
constexpr int kFarFiles = 16;

}  // namespace rookery
