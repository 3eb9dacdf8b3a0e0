// A data set of samples with one label each, which lie in one array as they were stored.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "models/base/check.hpp"
#include "trainer/data/content_digest.hpp"
#include "trainer/data/dataset.hpp"

namespace rookery {

template <typename Stored>
class MemoryDataset : public Dataset {
 public:
  static constexpr const char* kInput = "input";

  // `values` holds sample after sample; what gather() hands out is divided by `scale`. A sample's shape is
  // `image`, channels, height and width, where that is given.
  MemoryDataset(std::vector<Stored> values, std::vector<std::int64_t> labels, float scale,
                const std::optional<Shape>& image = {})
      : values_(std::move(values)), labels_(std::move(labels)), scale_(scale) {
    ROOKERY_CHECK(!labels_.empty() && values_.size() % labels_.size() == 0, "{} values of {} samples",
                  values_.size(), labels_.size());
    values_.shrink_to_fit();
    labels_.shrink_to_fit();
    const Shape shape = image ? Shape{kBatch, (*image)[0], (*image)[1], (*image)[2]}
                              : Shape{kBatch, static_cast<std::int64_t>(width())};
    ROOKERY_CHECK(shape.with_batch(1).elements() == static_cast<std::int64_t>(width()), "{} values as {}",
                  width(), shape.to_string());
    tensors_.emplace(kInput, TensorType{DType::kF32, shape});
    tensors_.emplace(kLabels, TensorType{DType::kI64, {kBatch}});
    Fnv1a digest(content_digest_of(values_));
    digest.add_unit(content_digest_of(labels_));
    digest_ = digest.value();
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  const ValueTypes& tensors() const override { return tensors_; }
  std::int64_t bytes() const override {
    return static_cast<std::int64_t>(values_.capacity() * sizeof(Stored) +
                                     labels_.capacity() * sizeof(std::int64_t));
  }

  std::uint64_t digest() const override { return digest_; }

  void gather(const std::string& name, std::span<const std::int64_t> ids, TensorView into) const override {
    ROOKERY_CHECK(tensors_.contains(name), "the data set has no tensor '{}'", name);
    for (const std::int64_t id : ids) ROOKERY_CHECK(id >= 0 && id < size(), "sample {} of {}", id, size());
    if (name == kLabels) {
      copy_labels(ids, into.as<std::int64_t>());
    } else {
      copy_values(ids, into.as<float>());
    }
  }

 private:
  template <typename Number>
  static std::uint64_t content_digest_of(const std::vector<Number>& numbers) {
    return content_digest({reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)});
  }
  std::size_t width() const { return values_.size() / labels_.size(); }

  void copy_labels(std::span<const std::int64_t> ids, std::span<std::int64_t> to) const {
    ROOKERY_CHECK(to.size() == ids.size(), "{} labels into {}", ids.size(), to.size());
    std::ranges::transform(ids, to.begin(), [&](std::int64_t id) { return labels_[id]; });
  }

  void copy_values(std::span<const std::int64_t> ids, std::span<float> to) const {
    ROOKERY_CHECK(to.size() == ids.size() * width(), "{} samples of {} elements into {}", ids.size(), width(),
                  to.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto from = std::span(values_).subspan(static_cast<std::size_t>(ids[i]) * width(), width());
      copy_scaled(from, to.subspan(i * width(), width()));
    }
  }

  // Divides in blocks, which compilers make vectors of.
  void copy_scaled(std::span<const Stored> from, std::span<float> to) const {
    constexpr std::size_t kBlock = 16;
    std::size_t at = 0;
    for (; at + kBlock <= from.size(); at += kBlock) {
      for (std::size_t i = 0; i < kBlock; ++i) to[at + i] = static_cast<float>(from[at + i]) / scale_;
    }
    for (; at < from.size(); ++at) to[at] = static_cast<float>(from[at]) / scale_;
  }

  std::vector<Stored> values_;
  std::vector<std::int64_t> labels_;
  float scale_;
  ValueTypes tensors_;
  std::uint64_t digest_ = 0;
};

}  // namespace rookery
