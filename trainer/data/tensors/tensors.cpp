#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "models/base/error.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "trainer/data/formats.hpp"
#include "trainer/data/readers.hpp"
#include "trainer/storage/local_copy.hpp"

namespace rookery {
namespace {

class TensorDataset : public Dataset {
 public:
  TensorDataset(StateDict all, std::int64_t samples) : all_(std::move(all)), samples_(samples) {
    for (const auto& [name, tensor] : all_) {
      TensorType type = tensor.type();
      type.shape[0] = kBatch;
      tensors_.emplace(name, type);
    }
  }

  std::int64_t size() const override { return samples_; }
  const ValueTypes& tensors() const override { return tensors_; }
  std::int64_t bytes() const override {
    std::int64_t bytes = 0;
    for (const auto& [name, tensor] : all_) bytes += std::ssize(tensor.view().bytes());
    return bytes;
  }

  void gather(const std::string& name, std::span<const std::int64_t> ids, TensorView into) const override {
    const auto found = all_.find(name);
    ROOKERY_CHECK(found != all_.end(), "the data set has no tensor '{}'", name);
    const ConstTensorView from = found->second.view();
    const std::size_t row = from.bytes().size() / static_cast<std::size_t>(samples_);
    ROOKERY_CHECK(into.type.dtype == from.type.dtype && into.bytes().size() == ids.size() * row,
                  "{} samples of {} into {}", ids.size(), from.type.to_string(), into.type.to_string());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ROOKERY_CHECK(ids[i] >= 0 && ids[i] < samples_, "sample {} of {}", ids[i], samples_);
      std::memcpy(into.data + i * row, from.data + static_cast<std::size_t>(ids[i]) * row, row);
    }
  }

 private:
  StateDict all_;
  std::int64_t samples_;
  ValueTypes tensors_;
};

template <typename Number>
void check_finite(const std::string& name, const Tensor& tensor, std::int64_t samples) {
  const auto numbers = tensor.as<Number>();
  const auto bad = std::ranges::find_if_not(numbers, [](Number number) { return std::isfinite(number); });
  if (bad == numbers.end()) return;
  const std::int64_t sample = (bad - numbers.begin()) / (std::ssize(numbers) / samples);
  throw DataError(fmt::format("'{}': sample {} has the value {}, which is not a finite number", name, sample,
                              static_cast<double>(*bad)));
}

std::unique_ptr<Dataset> open_tensors(NamedOptions& options, const DataPlace& place) {
  options.expect_none_left();
  return read_tensors(place.where);
}

}  // namespace

std::unique_ptr<Dataset> dataset_of(StateDict tensors) {
  if (tensors.empty()) throw DataError("has no tensors");
  const auto& [first, leader] = *tensors.begin();
  const std::int64_t samples = leader.shape().rank() < 1 ? 0 : leader.shape()[0];
  for (const auto& [name, tensor] : tensors) {
    const Shape& shape = tensor.shape();
    if (shape.rank() < 1 || shape.elements() == 0)
      throw DataError(fmt::format("'{}' is {}: it has no samples", name, tensor.type().to_string()));
    if (shape[0] != samples) {
      throw DataError(
          fmt::format("'{}' has {} samples, '{}' has {}: the first dimension of all tensors is "
                      "the sample",
                      name, shape[0], first, samples));
    }
    if (tensor.type().dtype == DType::kF32) check_finite<float>(name, tensor, shape[0]);
    if (tensor.type().dtype == DType::kF64) check_finite<double>(name, tensor, shape[0]);
  }
  return std::make_unique<TensorDataset>(std::move(tensors), samples);
}

std::unique_ptr<Dataset> read_tensors(const Place& place) {
  const LocalCopy file(place);
  StateDict tensors =
      file.read([](const std::filesystem::path& path) { return read_safetensors(path).tensors; });
  return with_context(file.name(), [&] { return dataset_of(std::move(tensors)); });
}

DataFormat tensors_format() {
  return {.name = "tensors:FILE",
          .pattern = "tensors:.",
          .help =
              "a safetensors file with the model's inputs and targets by name, the samples along "
              "the first dimension",
          .open = open_tensors};
}

}  // namespace rookery
