// The optimizers' arithmetic: one pass over arrays that are padded to a multiple of 16 floats and
// always processed whole, so that the place of an element makes no difference.
#pragma once

#include <cstddef>

namespace rookery::simd {

// torch.optim.Adam: g += weight_decay p; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g g;
// p -= step_size m / (sqrt(v) / sqrt_correction2 + epsilon), where step_size is the learning rate
// over 1 - beta1^t and sqrt_correction2 the root of 1 - beta2^t.
struct AdamCoefficients {
  float step_size, beta1, one_minus_beta1, beta2, one_minus_beta2, sqrt_correction2, epsilon, weight_decay;
};
void adam_update(const AdamCoefficients& c, float* p, const float* g, float* m, float* v, std::size_t count);

// torch.optim.SGD: g += weight_decay p; buffer = momentum buffer + g; p -= learning_rate buffer.
// Without a buffer (nullptr) p -= learning_rate g.
struct SgdCoefficients {
  float learning_rate, momentum, weight_decay;
};
void sgd_update(const SgdCoefficients& c, float* p, const float* g, float* buffer, std::size_t count);

}  // namespace rookery::simd
