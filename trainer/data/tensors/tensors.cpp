#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "trainer/data/content_digest.hpp"
#include "trainer/data/formats.hpp"
#include "trainer/data/tensors/stored_tensor.hpp"
#include "trainer/storage/local_copy.hpp"
#include "trainer/storage/temporary_file.hpp"

namespace rookery {
namespace {

constexpr std::size_t kMostConverted = 1U << 20;  // bytes at once

TensorType batched(TensorType type) {
  type.shape[0] = kBatch;
  return type;
}

std::string context(const std::string& data, const std::string& tensor) {
  return fmt::format("{}: '{}'", data, tensor);
}

void check_room(const TensorType& type, const TensorView& into, std::size_t bytes) {
  ROOKERY_CHECK(into.type.dtype == type.dtype && into.bytes().size() == bytes, "{} bytes of {} into {}",
                bytes, type.to_string(), into.type.to_string());
}

class TensorDataset : public Dataset {
 public:
  TensorDataset(StateDict all, std::int64_t samples) : all_(std::move(all)), samples_(samples) {
    Fnv1a digest;
    for (const auto& [name, tensor] : all_) {
      tensors_.emplace(name, batched(tensor.type()));
      digest.add(name + tensor.type().to_string());
      const std::span<const std::byte> bytes = tensor.view().bytes();
      digest.add_unit(content_digest({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    }
    digest_ = digest.value();
  }

  std::int64_t size() const override { return samples_; }
  const ValueTypes& tensors() const override { return tensors_; }
  std::int64_t bytes() const override {
    std::int64_t bytes = 0;
    for (const auto& [name, tensor] : all_) bytes += std::ssize(tensor.view().bytes());
    return bytes;
  }
  std::uint64_t digest() const override { return digest_; }

  void gather(const std::string& name, std::span<const std::int64_t> ids, TensorView into) const override {
    const auto found = all_.find(name);
    ROOKERY_CHECK(found != all_.end(), "the data set has no tensor '{}'", name);
    const ConstTensorView from = found->second.view();
    const std::size_t row = from.bytes().size() / static_cast<std::size_t>(samples_);
    check_room(from.type, into, ids.size() * row);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ROOKERY_CHECK(ids[i] >= 0 && ids[i] < samples_, "sample {} of {}", ids[i], samples_);
      std::memcpy(into.data + i * row, from.data + static_cast<std::size_t>(ids[i]) * row, row);
    }
  }

 private:
  StateDict all_;
  std::int64_t samples_;
  ValueTypes tensors_;
  std::uint64_t digest_ = 0;
};

// Reads each sample from its file when it is wanted.
class StoredDataset : public Dataset {
 public:
  StoredDataset(std::string name, StoredTensors all, std::int64_t samples)
      : name_(std::move(name)), all_(std::move(all)), samples_(samples) {
    for (auto& [its, tensor] : all_) {
      if (tensor.file->is_far()) tensor.file = fetched(*tensor.file);
      tensors_.emplace(its, batched(tensor.type));
    }
  }

  std::int64_t size() const override { return samples_; }
  const ValueTypes& tensors() const override { return tensors_; }
  std::int64_t bytes() const override { return 0; }
  bool is_at_hand() const override { return false; }
  std::int64_t bytes_per_reader() const override { return kMostConverted; }

  void gather(const std::string& name, std::span<const std::int64_t> ids, TensorView into) const override {
    const auto found = all_.find(name);
    ROOKERY_CHECK(found != all_.end(), "the data set has no tensor '{}'", name);
    const std::size_t row = found->second.sample_bytes();
    check_room(found->second.type, into, ids.size() * row);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ROOKERY_CHECK(ids[i] >= 0 && ids[i] < samples_, "sample {} of {}", ids[i], samples_);
      with_context(context(name_, name),
                   [&] { found->second.read(ids[i], 1, into.bytes().subspan(i * row, row)); });
    }
  }

 private:
  std::string name_;
  StoredTensors all_;
  std::int64_t samples_;
  ValueTypes tensors_;
};

template <typename Number>
void check_finite(std::span<const std::byte> bytes, std::int64_t first, std::size_t sample_bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Number)) {
    Number number{};
    std::memcpy(&number, bytes.data() + at, sizeof(Number));
    if (std::isfinite(number)) continue;
    throw DataError(fmt::format("sample {} has the value {}, which is not a finite number",
                                first + static_cast<std::int64_t>(at / sample_bytes),
                                static_cast<double>(number)));
  }
}

// The number of samples, which all tensors have.
std::int64_t samples_of(const StoredTensors& tensors) {
  if (tensors.empty()) throw DataError("has no tensors");
  const auto& [first, leader] = *tensors.begin();
  const std::int64_t samples = leader.type.shape.rank() < 1 ? 0 : leader.type.shape[0];
  for (const auto& [name, tensor] : tensors) {
    const Shape& shape = tensor.type.shape;
    if (shape.rank() < 1 || shape.elements() == 0)
      throw DataError(fmt::format("'{}' is {}: it has no samples", name, tensor.type.to_string()));
    if (shape[0] != samples) {
      throw DataError(
          fmt::format("'{}' has {} samples, '{}' has {}: the first dimension of all tensors is "
                      "the sample",
                      name, shape[0], first, samples));
    }
  }
  return samples;
}

std::unique_ptr<Dataset> open_tensors(NamedOptions& options, const DataPlace& place) {
  options.expect_none_left();
  const LocalCopy copy(place.where);
  const SafetensorsReader reader =
      copy.read([](const std::filesystem::path& path) { return SafetensorsReader(path); });
  const SharedFile whole = open_local_file(copy.path());
  const SharedFile file = part_of_file(whole, 0, whole->size(), copy.name());
  StoredTensors tensors;
  for (const auto& [name, type] : reader.types()) {
    tensors.emplace(name, StoredTensor{.type = type,
                                       .file = file,
                                       .offset = reader.extents().at(name).offset,
                                       .number_bytes = bytes_of(type.dtype)});
  }
  return dataset_of(copy.name(), std::move(tensors), place.reading);
}

}  // namespace

void StoredTensor::read(std::int64_t first, std::int64_t samples, std::span<std::byte> into) const {
  const std::size_t handed_out = bytes_of(type.dtype);
  const std::uint64_t begin = static_cast<std::uint64_t>(first) * (sample_bytes() / handed_out);
  ROOKERY_CHECK(into.size() == static_cast<std::size_t>(samples) * sample_bytes(), "{} samples into {} bytes",
                samples, into.size());
  if (convert == nullptr) {
    file->read(offset + begin * number_bytes, into);
  } else {
    const std::size_t at_once = kMostConverted / number_bytes;
    std::vector<std::byte> stored;
    for (std::size_t done = 0, count = into.size() / handed_out; done < count; done += at_once) {
      stored.resize(std::min(at_once, count - done) * number_bytes);
      file->read(offset + (begin + done) * number_bytes, stored);
      convert(stored, into.data() + done * handed_out, scale);
    }
  }
  if (type.dtype == DType::kF32) check_finite<float>(into, first, sample_bytes());
  if (type.dtype == DType::kF64) check_finite<double>(into, first, sample_bytes());
}

std::unique_ptr<Dataset> dataset_of(const std::string& name, StoredTensors tensors,
                                    const ReadingSettings& reading) {
  const std::int64_t samples = with_context(name, [&] { return samples_of(tensors); });
  std::uint64_t bytes = 0;
  for (const auto& [_, tensor] : tensors) bytes += tensor.type.bytes();
  if (bytes > static_cast<std::uint64_t>(reading.cache_mib) << 20)
    return std::make_unique<StoredDataset>(name, std::move(tensors), samples);
  StateDict all;
  for (const auto& entry : tensors) {
    Tensor& whole = all.emplace(entry.first, Tensor(entry.second.type)).first->second;
    with_context(context(name, entry.first), [&] { entry.second.read(0, samples, whole.view().bytes()); });
  }
  return std::make_unique<TensorDataset>(std::move(all), samples);
}

DataFormat tensors_format() {
  return {.name = "tensors:FILE",
          .pattern = "tensors:.",
          .help =
              "a safetensors file with the model's inputs and targets by name, the samples along "
              "the first dimension; it may be larger than memory",
          .open = open_tensors};
}

}  // namespace rookery
