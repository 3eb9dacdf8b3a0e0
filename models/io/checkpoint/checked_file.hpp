// Tensor files in which every bit is vouched for: safetensors whose metadata holds a checksum of each tensor
// and one of itself. Checkpoints and trained submodels are such files. FORMAT.md, "Checked files". The
// checksum is XXH3 (https://github.com/Cyan4973/xxHash), which is faster than memory; it finds accidents, not
// forgeries.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "models/io/safetensors/safetensors.hpp"

namespace rookery {

// The checksum of the elements and of the type that they are read as: 16 hex digits.
std::string checksum(ConstTensorView tensor);

// The metadata that such a file of these tensors has.
Metadata with_checksums(Metadata metadata, const StateViews& tensors);

void write_checked(const std::filesystem::path& path, const StateViews& tensors, const Metadata& metadata);
// Into a file that is open already, and commits it; how many bytes that takes, whatever the tensors' values.
void write_checked(AtomicFile& file, const StateViews& tensors, const Metadata& metadata);
std::uint64_t checked_bytes(const StateViews& tensors, const Metadata& metadata);

// Reads a file tensor by tensor, and checks each. DataError naming the file, the tensor and what is wrong
// with it. One thread.
class CheckedReader {
 public:
  // Reads and checks everything but the tensors' elements.
  explicit CheckedReader(std::filesystem::path path);

  // As it was given to write_checked().
  const Metadata& metadata() const { return metadata_; }
  const std::map<std::string, TensorType>& types() const { return file_.types(); }
  // A tensor of types().
  Tensor read(const std::string& name);
  // Its elements, into as many bytes, which hold anything where it is damaged.
  void read(const std::string& name, std::span<std::byte> into);
  // Reads all of them, and keeps none.
  void check_all();

 private:
  std::filesystem::path path_;
  SafetensorsReader file_;
  Metadata metadata_;
  std::map<std::string, std::string> checksums_;
};

// The whole file.
SafetensorsFile read_checked(const std::filesystem::path& path);

}  // namespace rookery
