#include "models/kernels/simd/elementwise.hpp"

#include <cmath>

namespace rookery::simd {

void adam_update(const AdamCoefficients& c, float* p, const float* g, float* m, float* v, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = g[i] + c.weight_decay * p[i];
    m[i] = c.beta1 * m[i] + c.one_minus_beta1 * gradient;
    v[i] = c.beta2 * v[i] + c.one_minus_beta2 * gradient * gradient;
    p[i] -= c.step_size * m[i] / (std::sqrt(v[i]) / c.sqrt_correction2 + c.epsilon);
  }
}

void sgd_update(const SgdCoefficients& c, float* p, const float* g, float* buffer, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    float gradient = g[i] + c.weight_decay * p[i];
    if (buffer != nullptr) gradient = buffer[i] = c.momentum * buffer[i] + gradient;
    p[i] -= c.learning_rate * gradient;
  }
}

}  // namespace rookery::simd
