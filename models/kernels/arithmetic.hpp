// Arithmetic on whole arrays of numbers, beside the ops of a graph: the optimizers', and that of gradients.
// Each device has its own; pointers are to its memory.
#pragma once

#include <cstddef>

namespace rookery {

// torch.optim.Adam: g += weight_decay p; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g g;
// p = kept p - step_size m / (sqrt(v) / sqrt_correction2 + epsilon), where step_size is the learning
// rate over 1 - beta1^t and sqrt_correction2 the root of 1 - beta2^t. AdamW is this without
// weight_decay; there `kept` is 1 - learning rate * weight decay.
struct AdamCoefficients {
  float step_size, beta1, one_minus_beta1, beta2, one_minus_beta2, sqrt_correction2, epsilon, weight_decay;
  float kept = 1;
};

// torch.optim.SGD: g += weight_decay p; buffer = momentum buffer + gradient_share g; p -= learning_rate
// buffer, or with Nesterov p -= learning_rate (g + momentum buffer). Without a buffer (nullptr)
// p -= learning_rate g.
struct SgdCoefficients {
  float learning_rate, momentum, weight_decay;
  float gradient_share = 1;  // 1 - dampening
  bool nesterov = false;
};

// torch.optim.RMSprop: g += weight_decay p; square = alpha square + (1 - alpha) g g; d = g / (sqrt(square)
// + epsilon). Centered, with `mean`: mean = alpha mean + (1 - alpha) g, and square - mean mean takes the
// place of square in d. With a buffer: d = buffer = momentum buffer + d. p -= learning_rate d.
struct RmspropCoefficients {
  float learning_rate, alpha, one_minus_alpha, epsilon, momentum, weight_decay;
};

// Lion (arXiv 2302.06675): d = sign(beta1 m + (1 - beta1) g); m = beta2 m + (1 - beta2) g;
// p = kept p - learning_rate d, where `kept` is 1 - learning rate * weight decay.
struct LionCoefficients {
  float learning_rate, beta1, one_minus_beta1, beta2, one_minus_beta2, kept;
};

// LAMB (arXiv 1904.00962) of one parameter of `count` elements, any number: m and v as Adam's;
// d = m mean_scale / (sqrt(v) root_scale + epsilon) + weight_decay p, the scales being Adam's
// corrections; p -= learning_rate |p| / |d| d, or p -= learning_rate d where a norm is 0.
struct LambCoefficients {
  float beta1, one_minus_beta1, beta2, one_minus_beta2, mean_scale, root_scale, epsilon, weight_decay;
};
struct LambNorms {
  double parameter = 0;  // squared
  double direction = 0;
};

// What an update leaves besides of parameters that it changes from p to q: to = q - p; or, where it
// `predicts`, to = (q - p) factor + q, as scale_and_add() computes it. `to` does not overlap p; nullptr:
// nothing.
struct KeptChange {
  float* to = nullptr;
  float factor = 1;
  bool predicts = false;
};

// The order of work does not depend on where an element lies, so that results are the same in every cut of a
// model. Optimizers get arrays that are padded to a multiple of 16 floats, and process them whole, but for
// LAMB's. What may be nullptr is said above.
class Arithmetic {
 public:
  virtual ~Arithmetic() = default;

  virtual void adam_update(const AdamCoefficients& c, float* p, const float* g, float* m, float* v,
                           const KeptChange& kept, std::size_t count) const = 0;
  virtual void sgd_update(const SgdCoefficients& c, float* p, const float* g, float* buffer,
                          const KeptChange& kept, std::size_t count) const = 0;
  virtual void rmsprop_update(const RmspropCoefficients& c, float* p, const float* g, float* square,
                              float* mean, float* buffer, const KeptChange& kept,
                              std::size_t count) const = 0;
  virtual void lion_update(const LionCoefficients& c, float* p, const float* g, float* m,
                           const KeptChange& kept, std::size_t count) const = 0;
  virtual void lamb_update(const LambCoefficients& c, double learning_rate, float* p, const float* g,
                           float* m, float* v, const KeptChange& kept, std::size_t count) const = 0;

  // The sum of the squares of any number of values, in double, in the same order everywhere.
  virtual double sum_of_squares(const float* values, std::size_t count) const = 0;
  // total[i] += share[i]
  virtual void add(float* total, const float* share, std::size_t count) const = 0;
  // values[i] *= factor
  virtual void scale(float* values, float factor, std::size_t count) const = 0;
  // values[i] = values[i] * factor + offsets[i], rounded once where the processor can
  virtual void scale_and_add(float* values, float factor, const float* offsets, std::size_t count) const = 0;
};

// That of the host, by the SIMD loops.
const Arithmetic& host_arithmetic();

// On the host, for arrays too large to stay in the processor's caches until they are used: what is written
// goes past them. That spares reading the memory that is overwritten, and leaves in the caches what is there.
// The arrays do not overlap.
void copy_past_caches(float* to, const float* from, std::size_t count);

}  // namespace rookery
