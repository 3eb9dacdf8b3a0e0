// Softmax over rows, and the exponential it needs.
#include "models/kernels/simd/loops/vector.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

// e^x for x <= 0 within 2 units in the last place; about 1e-38 below -87. Reduction to |r| <= ln 2 / 2 and
// the polynomial of Cephes' expf (https://netlib.org/cephes/).
inline Floats exponential(Floats x) {
  constexpr float kLowest = -87.3F;
  constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const Floats lowest = spread(kLowest);
  x = x < lowest ? lowest : x;
  const Floats rounded = x * 1.44269504088896341F + kRounder;
  const Floats n = rounded - kRounder;
  const Floats r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  Floats p = spread(1.9875691500e-4F);
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const Ints exponent = (__builtin_convertvector(n, Ints) + 127) << 23;
  return p * reinterpret_cast<Floats>(exponent);
}

float peak_of(Index n, const float* x) {
  Floats best = spread(x[0]);
  const auto larger = [](Floats a, Floats b) { return a > b ? a : b; };
  for_vectors(
      n, [&](Index i) { best = larger(load(x + i), best); },
      [&](Index i, Index count) {
        for (Index j = 0; j < count; ++j) best[0] = x[i + j] > best[0] ? x[i + j] : best[0];
      });
  return max_of(best);
}

void scale(Index n, float factor, float* y) {
  for_vectors(
      n, [&](Index i) { store(y + i, load(y + i) * factor); },
      [&](Index i, Index count) { store_part(y + i, load_part(y + i, count) * factor, count); });
}

}  // namespace

void scaled_exp(Index n, const float* x, float shift, float factor, float* y) {
  for_vectors(
      n, [&](Index i) { store(y + i, exponential(load(x + i) - shift) * factor); },
      [&](Index i, Index count) {
        store_part(y + i, exponential(load_part(x + i, count) - shift) * factor, count);
      });
}

float sum_exp(Index n, const float* x, float peak) {
  Floats sum{};
  for_vectors(
      n, [&](Index i) { sum += exponential(load(x + i) - peak); },
      [&](Index i, Index count) { sum += first_of(exponential(load_part(x + i, count) - peak), count); });
  return sum_of(sum);
}

void softmax(Index rows, Index n, const float* x, float* y) {
  for (Index row = 0; row < rows; ++row, x += n, y += n) {
    scaled_exp(n, x, peak_of(n, x), 1, y);
    Floats sum{};
    for_vectors(
        n, [&](Index i) { sum += load(y + i); },
        [&](Index i, Index count) { sum += load_part(y + i, count); });
    scale(n, 1 / sum_of(sum), y);
  }
}

void softmax_grad(Index rows, Index n, const float* dy, const float* y, float* dx) {
  for (Index row = 0; row < rows; ++row, dy += n, y += n, dx += n) {
    Floats sum{};
    for_vectors(
        n, [&](Index i) { sum += load(dy + i) * load(y + i); },
        [&](Index i, Index count) { sum += load_part(dy + i, count) * load_part(y + i, count); });
    const float mean = sum_of(sum);
    for_vectors(
        n, [&](Index i) { store(dx + i, load(y + i) * (load(dy + i) - mean)); },
        [&](Index i, Index count) {
          store_part(dx + i, load_part(y + i, count) * (load_part(dy + i, count) - mean), count);
        });
  }
}

}  // namespace rookery::simd::ROOKERY_ISA
