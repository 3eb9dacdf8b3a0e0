// Data sets that are computed from (seed, sample id), sample by sample, and take no memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "models/base/rng.hpp"
#include "trainer/data/dataset.hpp"

namespace rookery {

// The label of a position that does not count: PyTorch's default of ignore_index.
constexpr std::int64_t kIgnoredLabel = -100;

class GeneratedDataset : public Dataset {
 public:
  // The types are those of tensors().
  GeneratedDataset(std::int64_t samples, ValueTypes tensors)
      : samples_(samples), tensors_(std::move(tensors)) {}

  std::int64_t size() const override { return samples_; }
  const ValueTypes& tensors() const override { return tensors_; }
  std::int64_t bytes() const override { return 0; }
  bool is_at_hand() const override { return false; }
  void gather(const std::string& name, std::span<const std::int64_t> ids, TensorView into) const override;

 protected:
  // Writes the tensor `name` of sample `id`, whose type is that of a batch of one.
  virtual void draw(std::int64_t id, const std::string& name, TensorView into) const = 0;

 private:
  std::int64_t samples_;
  ValueTypes tensors_;
};

}  // namespace rookery
