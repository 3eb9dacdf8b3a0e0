#include "models/kernels/simd/elementwise.hpp"

#include <array>
#include <cmath>
#include <numeric>

#include "models/base/check.hpp"
#include "models/kernels/simd/loops/loops.hpp"

namespace rookery::simd {

namespace {

Index whole_blocks(std::size_t count) {
  ROOKERY_CHECK(count % 16 == 0, "{} floats are not padded to blocks of 16", count);
  return static_cast<Index>(count);
}

}  // namespace

void adam_update(const AdamCoefficients& c, float* p, const float* g, float* m, float* v, std::size_t count) {
  loops().adam(c, whole_blocks(count), p, g, m, v);
}

void sgd_update(const SgdCoefficients& c, float* p, const float* g, float* buffer, std::size_t count) {
  loops().sgd(c, whole_blocks(count), p, g, buffer);
}

void rmsprop_update(const RmspropCoefficients& c, float* p, const float* g, float* square, float* mean,
                    float* buffer, std::size_t count) {
  loops().rmsprop(c, whole_blocks(count), p, g, square, mean, buffer);
}

void lion_update(const LionCoefficients& c, float* p, const float* g, float* m, std::size_t count) {
  loops().lion(c, whole_blocks(count), p, g, m);
}

void lamb_update(const LambCoefficients& c, double learning_rate, float* p, const float* g, float* m,
                 float* v, std::size_t count) {
  const auto n = static_cast<Index>(count);
  const LambNorms norms = loops().lamb_moments(c, n, p, g, m, v);
  const bool trusts = norms.parameter > 0 && norms.direction > 0;
  const double ratio = trusts ? std::sqrt(norms.parameter / norms.direction) : 1;
  loops().lamb_step(c, static_cast<float>(learning_rate * ratio), n, p, m, v);
}

double sum_of_squares(const float* values, std::size_t count) {
  constexpr std::size_t kSums = 16;  // enough for the widest vectors
  std::array<double, kSums> sums{};
  std::size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) {
      const double value = values[i + j];
      sums[j] += value * value;
    }
  }
  for (std::size_t j = 0; i + j < count; ++j) {
    const double value = values[i + j];
    sums[j] += value * value;
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace rookery::simd
