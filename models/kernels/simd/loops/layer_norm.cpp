// Layer normalization: each row by itself, read once from memory; what it needs twice is in the cache.
#include "models/kernels/simd/loops/elements.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

constexpr Index kRun = 64;  // rows summed in one go: sums of sums keep the rounding small

inline void keep(float* y, Index i, Floats value, Index count) {
  if (count == kLanes) {
    store(y + i, value);
  } else {
    store_part(y + i, value, count);
  }
}

// body(place, count) over a row.
template <typename Body>
inline void for_row(Index n, Body body) {
  for_vectors(
      n, [&](Index i) { body(i, kLanes); }, [&](Index i, Index count) { body(i, count); });
}

inline void zero(Index n, float* x) {
  for_row(n, [=](Index i, Index count) { keep(x, i, Floats{}, count); });
}

inline void add_to(Index n, const float* x, float* sum) {
  for_row(
      n, [=](Index i, Index count) { keep(sum, i, elements(sum, i, count) + elements(x, i, count), count); });
}

}  // namespace

void layer_norm(const LayerNorm& s, const float* x, const float* scale, const float* bias, float* y,
                float* mean, float* inverse) {
  const float share = 1 / static_cast<float>(s.n);
  for (Index row = 0; row < s.rows; ++row, x += s.n, y += s.n) {
    Floats sum{};
    for_row(s.n, [&](Index i, Index count) { sum += elements(x, i, count); });
    const float middle = sum_of(sum) * share;
    Floats squares{};
    for_row(s.n, [&](Index i, Index count) {
      const Floats gap = first_of(elements(x, i, count) - middle, count);
      squares += gap * gap;
    });
    const float factor = 1 / __builtin_sqrtf(sum_of(squares) * share + s.epsilon);
    for_row(s.n, [&](Index i, Index count) {
      const Floats scaled = (elements(x, i, count) - middle) * factor * elements(scale, i, count);
      keep(y, i, bias == nullptr ? scaled : scaled + elements(bias, i, count), count);
    });
    if (mean == nullptr) continue;
    mean[row] = middle;
    inverse[row] = factor;
  }
}

// With z = (x - mean) * inverse and g = dy * scale: dx = inverse * (g - mean(g) - z * mean(g z)).
void layer_norm_grad(const LayerNorm& s, const float* dy, const float* x, const float* scale,
                     const float* mean, const float* inverse, float* dx, float* dscale, float* dbias,
                     float* sums) {
  const float share = 1 / static_cast<float>(s.n);
  float* const scale_sums = sums;
  float* const bias_sums = sums + s.n;
  zero(s.n, dscale);
  zero(s.n, dbias);
  for (Index first = 0; first < s.rows; first += kRun) {
    const Index last = first + kRun < s.rows ? first + kRun : s.rows;
    zero(2 * s.n, sums);
    for (Index row = first; row < last; ++row, dy += s.n, x += s.n) {
      const float middle = mean[row];
      const float factor = inverse[row];
      Floats sum{};
      Floats product{};
      for_row(s.n, [&](Index i, Index count) {
        const Floats gradient = elements(dy, i, count);  // zeros behind the end
        const Floats z = (elements(x, i, count) - middle) * factor;
        const Floats scaled = gradient * elements(scale, i, count);
        sum += scaled;
        product += scaled * z;
        keep(scale_sums, i, elements(scale_sums, i, count) + gradient * z, count);
        keep(bias_sums, i, elements(bias_sums, i, count) + gradient, count);
      });
      if (dx == nullptr) continue;
      const float mean_sum = sum_of(sum) * share;
      const float slope = sum_of(product) * share;
      for_row(s.n, [&](Index i, Index count) {
        const Floats z = (elements(x, i, count) - middle) * factor;
        const Floats scaled = elements(dy, i, count) * elements(scale, i, count);
        keep(dx, i, (scaled - mean_sum - z * slope) * factor, count);
      });
      dx += s.n;
    }
    add_to(s.n, scale_sums, dscale);
    add_to(s.n, bias_sums, dbias);
  }
}

}  // namespace rookery::simd::ROOKERY_ISA
