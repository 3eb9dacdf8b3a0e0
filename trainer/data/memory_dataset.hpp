// A data set whose samples lie in one array, as they were stored.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "models/base/check.hpp"
#include "trainer/data/dataset.hpp"

namespace rookery {

template <typename Stored>
class MemoryDataset : public Dataset {
 public:
  // `values` holds sample after sample; what gather() hands out is divided by `scale`.
  MemoryDataset(std::vector<Stored> values, std::vector<std::int64_t> labels, float scale)
      : values_(std::move(values)), labels_(std::move(labels)), scale_(scale) {
    ROOKERY_CHECK(!labels_.empty() && values_.size() % labels_.size() == 0, "{} values of {} samples",
                  values_.size(), labels_.size());
    values_.shrink_to_fit();
    labels_.shrink_to_fit();
    for (const std::int64_t label : labels_) classes_ = std::max(classes_, label + 1);
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  std::int64_t sample_elements() const override {
    return static_cast<std::int64_t>(values_.size() / labels_.size());
  }
  std::int64_t classes() const override { return classes_; }
  std::int64_t bytes() const override {
    return static_cast<std::int64_t>(values_.capacity() * sizeof(Stored) +
                                     labels_.capacity() * sizeof(std::int64_t));
  }

  void gather(std::span<const std::int64_t> ids, std::span<float> samples,
              std::span<std::int64_t> labels) const override {
    const auto width = static_cast<std::size_t>(sample_elements());
    ROOKERY_CHECK(samples.empty() || samples.size() == ids.size() * width,
                  "{} samples of {} elements into {}", ids.size(), width, samples.size());
    ROOKERY_CHECK(labels.empty() || labels.size() == ids.size(), "{} labels into {}", ids.size(),
                  labels.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ROOKERY_CHECK(ids[i] >= 0 && ids[i] < size(), "sample {} of {}", ids[i], size());
      const auto id = static_cast<std::size_t>(ids[i]);
      if (!labels.empty()) labels[i] = labels_[id];
      if (samples.empty()) continue;
      const Stored* from = values_.data() + id * width;
      float* to = samples.data() + i * width;
      for (std::size_t j = 0; j < width; ++j) to[j] = static_cast<float>(from[j]) / scale_;
    }
  }

 private:
  std::vector<Stored> values_;
  std::vector<std::int64_t> labels_;
  float scale_;
  std::int64_t classes_ = 0;
};

}  // namespace rookery
