#include "models/io/checkpoint/checked_file.hpp"

#include <xxhash.h>

#include <memory>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/files/json_file.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"

namespace rookery {
namespace {

constexpr const char* kChecksumsKey = "checksums";
constexpr const char* kMetadataChecksumKey = "metadata_checksum";

std::string text_of(std::uint64_t sum) {
  return fmt::format("{:016x}", sum);
}

// Of the elements of a tensor, block by block, and of the type that they are read as.
class Checksum {
 public:
  explicit Checksum(const TensorType& type) {
    const std::string name = type.to_string();
    XXH3_64bits_reset_withSeed(state_.get(), XXH3_64bits(name.data(), name.size()));
  }
  void add(std::span<const std::byte> block) { XXH3_64bits_update(state_.get(), block.data(), block.size()); }
  std::string text() const { return text_of(XXH3_64bits_digest(state_.get())); }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_{XXH3_createState()};
};

std::string checksum(const Metadata& metadata) {
  const std::string text = Json(metadata).dump();
  return text_of(XXH3_64bits(text.data(), text.size()));
}

std::string take(Metadata& metadata, const char* key) {
  const auto found = metadata.extract(key);
  if (found.empty()) throw DataError(fmt::format("its metadata has no '{}': it is not a checked file", key));
  return found.mapped();
}

std::map<std::string, std::string> checksums_from(const std::string& text) {
  try {
    return Json::parse(text).get<std::map<std::string, std::string>>();
  } catch (const Json::exception&) {
    throw DataError(fmt::format("'{}' of its metadata is not a list of checksums", kChecksumsKey));
  }
}

}  // namespace

std::string checksum(ConstTensorView tensor) {
  Checksum sum(tensor.type);
  sum.add(tensor.bytes());
  return sum.text();
}

Metadata with_checksums(Metadata metadata, const StateViews& tensors) {
  std::map<std::string, std::string> checksums;
  for (const auto& [name, tensor] : tensors) checksums.emplace(name, checksum(tensor));
  try {
    metadata[kChecksumsKey] = Json(checksums).dump();
    metadata[kMetadataChecksumKey] = checksum(metadata);
  } catch (const Json::exception&) {
    throw DataError("a tensor's name or the metadata is not UTF-8");
  }
  return metadata;
}

void write_checked(const std::filesystem::path& path, const StateViews& tensors, const Metadata& metadata) {
  write_safetensors(path, tensors,
                    with_context(path.string(), [&] { return with_checksums(metadata, tensors); }));
}

void write_checked(AtomicFile& file, const StateViews& tensors, const Metadata& metadata) {
  write_safetensors(file, tensors,
                    with_context(file.path().string(), [&] { return with_checksums(metadata, tensors); }));
}

std::uint64_t checked_bytes(const StateViews& tensors, const Metadata& metadata) {
  return safetensors_bytes(tensors, with_checksums(metadata, tensors));
}

CheckedReader::CheckedReader(std::filesystem::path path)
    : path_(std::move(path)), file_(path_), metadata_(file_.metadata()) {
  with_context(path_.string(), [&] {
    const std::string expected = take(metadata_, kMetadataChecksumKey);
    if (checksum(metadata_) != expected)
      throw DataError("damaged: its metadata is not what was written (the checksum differs)");
    checksums_ = checksums_from(take(metadata_, kChecksumsKey));
    for (const auto& [name, type] : file_.types()) {
      if (!checksums_.contains(name))
        throw DataError(fmt::format("damaged: there is no checksum of tensor {}", Json(name).dump()));
    }
    if (checksums_.size() != file_.types().size()) throw DataError("damaged: it lacks tensors");
  });
}

Tensor CheckedReader::read(const std::string& name) {
  Tensor tensor(types().at(name));
  read(name, tensor.view().bytes());
  return tensor;
}

void CheckedReader::read(const std::string& name, std::span<std::byte> into) {
  Checksum sum(types().at(name));
  file_.read(name, into, [&](std::span<const std::byte> block) { sum.add(block); });
  if (sum.text() != checksums_.at(name)) {
    throw DataError(fmt::format("{}: damaged: tensor {} is not what was written (its checksum differs)",
                                path_.string(), Json(name).dump()));
  }
}

void CheckedReader::check_all() {
  for (const auto& [name, type] : file_.types()) read(name);
}

SafetensorsFile read_checked(const std::filesystem::path& path) {
  CheckedReader reader(path);
  SafetensorsFile file{.metadata = reader.metadata()};
  for (const auto& [name, type] : reader.types()) file.tensors.emplace(name, reader.read(name));
  return file;
}

}  // namespace rookery
