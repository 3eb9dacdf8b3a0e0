// Loops over [batch, channels, plane] that several back ends share. Internal to this module.
#pragma once

#include <cstdint>

namespace rookery {

// y += bias of its channel.
inline void add_to_channels(std::int64_t batch, std::int64_t channels, std::int64_t plane, const float* bias,
                            float* y) {
  for (std::int64_t i = 0; i < batch * channels; ++i) {
    const float number = bias[i % channels];
    for (std::int64_t j = 0; j < plane; ++j) y[i * plane + j] += number;
  }
}

// Sum of `n` numbers, in double and in an order that vectors can keep.
inline double sum_of(const float* x, std::int64_t n) {
  constexpr std::int64_t kParts = 8;
  double parts[kParts]{};
  std::int64_t i = 0;
  for (; i + kParts <= n; i += kParts) {
    for (std::int64_t part = 0; part < kParts; ++part) parts[part] += x[i + part];
  }
  double sum = 0;
  for (; i < n; ++i) sum += x[i];
  for (const double part : parts) sum += part;
  return sum;
}

// sums[c] = sum of channel c.
inline void sum_channels(std::int64_t batch, std::int64_t channels, std::int64_t plane, const float* x,
                         float* sums) {
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    double sum = 0;
    for (std::int64_t image = 0; image < batch; ++image) {
      sum += sum_of(x + (image * channels + channel) * plane, plane);
    }
    sums[channel] = static_cast<float>(sum);
  }
}

}  // namespace rookery
