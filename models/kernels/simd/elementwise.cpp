#include "models/kernels/simd/elementwise.hpp"

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

}  // namespace rookery::simd
