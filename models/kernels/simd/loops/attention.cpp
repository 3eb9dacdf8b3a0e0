// The work on the scores of attention between its two matrix products, row by row.
#include "models/kernels/simd/loops/exponential.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

constexpr float kInfinity = __builtin_inff();
// From here on a float has too few digits for the logarithm of a sum of weights, as of scores that a mask of
// -1e9 hides.
constexpr float kFar = 64;

// Scores that are too low, and those that a mask has made -infinity, have no weight at all.
inline Floats weight(Floats score) {
  return score < -87.0F ? Floats{} : exponential(score);
}

inline Index visible(const AttentionRows& s, Index row) {
  if (!s.is_causal || s.seen + row > s.columns) return s.columns;
  return s.seen + row;
}

// body(place, how many of the vector's elements are seen) for all vectors of a row. They are read and written
// as a whole: a part that has just been written would have to reach the cache before it is read again.
template <typename Body>
inline void for_row(const AttentionRows& s, Index seen, Body body) {
  for (Index i = 0; i < s.columns; i += kLanes) body(i, seen - i);
}

inline Floats seen_or(Floats vector, Index count, Floats other) {
  if (count >= kLanes) return vector;
  return count <= 0 ? other : first_or(vector, count, other);
}

}  // namespace

void attention_softmax(const AttentionRows& s, float* scores, float* log_sums) {
  for (Index row = 0; row < s.rows; ++row, scores += s.stride) {
    const Index seen = visible(s, row);
    Floats peaks = spread(-kInfinity);
    for_row(s, seen, [&](Index i, Index count) {
      const Floats score = seen_or(load(scores + i) * s.scale, count, peaks);
      peaks = score > peaks ? score : peaks;
    });
    // Nothing is above -infinity where nothing is seen, or NaN alone, which stays one.
    const float largest = max_of(peaks);
    const float peak = largest == -kInfinity ? 0 : largest;
    Floats total{};
    for_row(s, seen, [&](Index i, Index count) {
      const Floats e = seen_or(weight(load(scores + i) * s.scale - peak), count, Floats{});
      total += e;
      store(scores + i, e);
    });
    if (log_sums != nullptr) log_sums[row] = kInfinity;
    const float sum = sum_of(total);
    if (sum == 0) continue;
    const float share = 1 / sum;
    for_row(s, seen, [&](Index i, Index) { store(scores + i, load(scores + i) * share); });
    if (log_sums != nullptr) log_sums[row] = peak + __builtin_logf(sum);
  }
}

void attention_weights(const AttentionRows& s, float* scores, const float* log_sums) {
  for (Index row = 0; row < s.rows; ++row, scores += s.stride) {
    const float log_sum = log_sums[row];
    const Index seen = visible(s, row);
    Floats total{};
    for_row(s, seen, [&](Index i, Index count) {
      const Floats e = seen_or(weight(load(scores + i) * s.scale - log_sum), count, Floats{});
      total += e;
      store(scores + i, e);
    });
    const float sum = sum_of(total);
    if (__builtin_fabsf(log_sum) < kFar || sum == 0) continue;
    const float share = 1 / sum;
    for_row(s, seen, [&](Index i, Index) { store(scores + i, load(scores + i) * share); });
  }
}

void attention_scores_grad(const AttentionRows& s, const float* weights, float* gradient) {
  for (Index row = 0; row < s.rows; ++row, weights += s.stride, gradient += s.stride) {
    Floats product{};
    for_row(s, s.columns, [&](Index i, Index) { product += load(weights + i) * load(gradient + i); });
    const float mean = sum_of(product);
    for_row(s, s.columns, [&](Index i, Index) {
      store(gradient + i, load(weights + i) * (load(gradient + i) - mean) * s.scale);
    });
  }
}

}  // namespace rookery::simd::ROOKERY_ISA
