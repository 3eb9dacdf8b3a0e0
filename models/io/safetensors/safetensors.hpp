// The safetensors format (https://github.com/huggingface/safetensors): 8 bytes little-endian header
// length, a JSON header of dtype, shape and data_offsets, then the tensors' bytes, one directly
// after the other as the format demands. See FORMAT.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "models/base/files/files.hpp"
#include "models/graph/state/state_dict.hpp"

namespace rookery {

// The "__metadata__" of a file.
using Metadata = std::map<std::string, std::string>;

struct SafetensorsFile {
  StateDict tensors;
  Metadata metadata;
};

// Where a tensor's bytes begin and how many they are, for files that point into this one.
struct TensorExtent {
  std::uint64_t offset = 0;  // from the start of the file
  std::uint64_t bytes = 0;
};

// Reads a file tensor by tensor. DataError naming file, tensor and numbers for anything that is not a
// complete, valid file; nothing is allocated before its size is checked against the file's. Dtypes we lack
// are refused by name, and so is a file of a newer format version of ours than this program knows. One
// thread.
class SafetensorsReader {
 public:
  // Reads and checks the header.
  explicit SafetensorsReader(std::filesystem::path path);

  const Metadata& metadata() const { return metadata_; }
  const std::map<std::string, TensorType>& types() const { return types_; }
  const std::map<std::string, TensorExtent>& extents() const { return extents_; }
  // A tensor of types().
  Tensor read(const std::string& name);
  // Its elements, into as many bytes; `on_block` is told of each block when it is there, while it is in the
  // cache.
  using OnBlock = std::function<void(std::span<const std::byte>)>;
  void read(const std::string& name, std::span<std::byte> into, const OnBlock& on_block = {});

 private:
  std::filesystem::path path_;
  std::ifstream stream_;
  Metadata metadata_;
  std::map<std::string, TensorType> types_;
  std::map<std::string, TensorExtent> extents_;
};

// The whole file.
SafetensorsFile read_safetensors(const std::filesystem::path& path);
// The metadata of a file, of which its header alone is read and checked.
Metadata safetensors_metadata(const std::filesystem::path& path);
// Atomic. The first tensor's data begins at a multiple of kAlignment bytes in the file, and every
// other's at a multiple of its element size: wide elements come first, then by name. Our format
// version is kept beside `metadata` and not handed out again. DataError when a name or a text of
// the metadata is not UTF-8.
void write_safetensors(const std::filesystem::path& path, const StateViews& tensors,
                       const Metadata& metadata = {});
void write_safetensors(const std::filesystem::path& path, const StateDict& tensors,
                       const Metadata& metadata = {});
// Into a file that is open already, and commits it; how many bytes that takes.
void write_safetensors(AtomicFile& file, const StateViews& tensors, const Metadata& metadata);
std::uint64_t safetensors_bytes(const StateViews& tensors, const Metadata& metadata);

}  // namespace rookery
