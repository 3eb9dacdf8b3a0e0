// What happens to the scores of attention between its two matrix products, row by row.
#include "models/kernels/simd/loops/exponential.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

constexpr float kInfinity = __builtin_inff();

// Scores that are too low, and those that a mask has made -infinity, have no weight at all.
inline Floats weight(Floats score) {
  return score < -87.0F ? Floats{} : exponential(score);
}

inline Index visible(const AttentionRows& s, Index row) {
  if (!s.is_causal || s.seen + row > s.columns) return s.columns;
  return s.seen + row;
}

inline void zero_behind(const AttentionRows& s, Index seen, float* row) {
  for (Index i = seen; i < s.columns; ++i) row[i] = 0;
}

}  // namespace

void attention_softmax(const AttentionRows& s, float* scores, float* log_sums) {
  for (Index row = 0; row < s.rows; ++row, scores += s.stride) {
    const Index n = visible(s, row);
    Floats peaks = spread(-kInfinity);
    for_vectors(
        n,
        [&](Index i) {
          const Floats score = load(scores + i) * s.scale;
          peaks = score > peaks ? score : peaks;
        },
        [&](Index i, Index count) {
          const Floats score = first_or(load_part(scores + i, count) * s.scale, count, peaks);
          peaks = score > peaks ? score : peaks;
        });
    const float peak = max_of(peaks);
    zero_behind(s, peak == -kInfinity ? 0 : n, scores);
    if (log_sums != nullptr) log_sums[row] = kInfinity;
    if (peak == -kInfinity) continue;
    Floats total{};
    for_vectors(
        n,
        [&](Index i) {
          const Floats e = weight(load(scores + i) * s.scale - peak);
          total += e;
          store(scores + i, e);
        },
        [&](Index i, Index count) {
          const Floats e = first_of(weight(load_part(scores + i, count) * s.scale - peak), count);
          total += e;
          store_part(scores + i, e, count);
        });
    const float sum = sum_of(total);
    const float share = 1 / sum;
    for_vectors(
        n, [&](Index i) { store(scores + i, load(scores + i) * share); },
        [&](Index i, Index count) { store_part(scores + i, load_part(scores + i, count) * share, count); });
    if (log_sums != nullptr) log_sums[row] = peak + __builtin_logf(sum);
  }
}

void attention_weights(const AttentionRows& s, float* scores, const float* log_sums) {
  for (Index row = 0; row < s.rows; ++row, scores += s.stride) {
    const Index n = visible(s, row);
    const float log_sum = log_sums[row];
    for_vectors(
        n, [&](Index i) { store(scores + i, weight(load(scores + i) * s.scale - log_sum)); },
        [&](Index i, Index count) {
          store_part(scores + i, weight(load_part(scores + i, count) * s.scale - log_sum), count);
        });
    zero_behind(s, n, scores);
  }
}

void attention_scores_grad(const AttentionRows& s, const float* weights, float* gradient) {
  for (Index row = 0; row < s.rows; ++row, weights += s.stride, gradient += s.stride) {
    Floats product{};
    for_vectors(
        s.columns, [&](Index i) { product += load(weights + i) * load(gradient + i); },
        [&](Index i, Index count) {
          product += load_part(weights + i, count) * load_part(gradient + i, count);
        });
    const float mean = sum_of(product);
    for_vectors(
        s.columns,
        [&](Index i) { store(gradient + i, load(weights + i) * (load(gradient + i) - mean) * s.scale); },
        [&](Index i, Index count) {
          const Floats slope = load_part(weights + i, count) * (load_part(gradient + i, count) - mean);
          store_part(gradient + i, slope * s.scale, count);
        });
  }
}

}  // namespace rookery::simd::ROOKERY_ISA
