// Keeps the pixels of the first samples of a data set from the first time that they are read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "models/tensor/tensor.hpp"

namespace rookery {

// Any number of threads at once.
class PixelCache {
 public:
  // For as many of `samples`, of `sample_bytes` each, as there is room for in `bytes`. What it takes becomes
  // resident as it is filled.
  PixelCache(std::int64_t samples, std::int64_t sample_bytes, std::int64_t bytes);

  // The most that it takes.
  std::int64_t bytes() const { return kept_ * (sample_bytes_ + 1); }
  // The pixels of a sample, if they are there.
  std::span<const std::uint8_t> find(std::int64_t sample) const;
  // Keeps them, if there is a place for the sample and nobody else is at it.
  void keep(std::int64_t sample, std::span<const std::uint8_t> pixels);

 private:
  enum State : std::uint8_t { kEmpty, kBeingFilled, kFilled };

  std::int64_t sample_bytes_;
  std::int64_t kept_;
  AlignedBuffer pixels_;
  std::unique_ptr<std::atomic<State>[]> states_;
};

}  // namespace rookery
