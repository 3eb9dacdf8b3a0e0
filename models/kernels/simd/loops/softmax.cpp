// Softmax over rows, and sums of exponentials.
#include "models/kernels/simd/loops/exponential.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

void scaled_exp(Index n, const float* x, float shift, float factor, float* y) {
  for_vectors(
      n, [&](Index i) { store(y + i, exponential(load(x + i) - shift) * factor); },
      [&](Index i, Index count) {
        store_part(y + i, exponential(load_part(x + i, count) - shift) * factor, count);
      });
}

bool is_zero(Index n, const float* x) {
  for (Index i = 0; i < n; ++i)
    if (x[i] != 0) return false;
  return true;
}

void scale(Index n, float factor, float* y) {
  for_vectors(
      n, [&](Index i) { store(y + i, load(y + i) * factor); },
      [&](Index i, Index count) { store_part(y + i, load_part(y + i, count) * factor, count); });
}

}  // namespace

float peak_of(Index n, const float* x) {
  Floats best = spread(x[0]);
  const auto larger = [](Floats a, Floats b) { return a > b ? a : b; };
  for_vectors(
      n, [&](Index i) { best = larger(load(x + i), best); },
      [&](Index i, Index count) { best = larger(first_or(load_part(x + i, count), count, best), best); });
  return max_of(best);
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
    if (mean != mean && is_zero(n, dy)) {  // nothing is made of a NaN
      __builtin_memset(dx, 0, static_cast<std::size_t>(n) * sizeof(float));
      continue;
    }
    for_vectors(
        n, [&](Index i) { store(dx + i, load(y + i) * (load(dy + i) - mean)); },
        [&](Index i, Index count) {
          store_part(dx + i, load_part(y + i, count) * (load_part(dy + i, count) - mean), count);
        });
  }
}

}  // namespace rookery::simd::ROOKERY_ISA
