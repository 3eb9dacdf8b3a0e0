// Average pooling: rows of the image are added up as vectors, and of the sums those of each window.
#include "models/kernels/simd/loops/vector.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

// Four sums side by side, so that one addition need not wait for the one before.
inline float sum_of_run(const float* x, Index n) {
  Floats sums[4]{};
  Index i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (Index part = 0; part < 4; ++part) sums[part] += load(x + i + part * kLanes);
  }
  for (; i + kLanes <= n; i += kLanes) sums[0] += load(x + i);
  if (i < n) sums[1] += load_part(x + i, n - i);
  return sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// Windows of a few elements are not worth a vector.
inline float sum_of_window(const float* x, Index n) {
  if (n >= kLanes) return sum_of_run(x, n);
  float sum = 0;
  for (Index i = 0; i < n; ++i) sum += x[i];
  return sum;
}

inline void add_to(Index n, const float* x, float* sums) {
  const auto whole = [&](Index i) { store(sums + i, load(sums + i) + load(x + i)); };
  const auto part = [&](Index i, Index count) {
    store_part(sums + i, load_part(sums + i, count) + load_part(x + i, count), count);
  };
  for_vectors(n, whole, part);
}

inline void set_all(Index n, float value, float* x) {
  const auto part = [&](Index i, Index count) { store_part(x + i, spread(value), count); };
  for_vectors(
      n, [&](Index i) { store(x + i, spread(value)); }, part);
}

inline float divisor(const Averaged& row, const Averaged& column) {
  return static_cast<float>(row.count * column.count);
}

}  // namespace

void average_pool(const AveragePool& s, const float* x, float* sums, float* y) {
  for (Index plane = 0; plane < s.planes; ++plane, x += s.in_h * s.in_w) {
    for (Index i = 0; i < s.out_h; ++i) {
      const Averaged& row = s.rows[i];
      const float* from = x + row.begin * s.in_w;
      if (row.end - row.begin > 1) {
        __builtin_memcpy(sums, from, static_cast<std::size_t>(s.in_w) * sizeof(float));
        for (Index k = row.begin + 1; k < row.end; ++k) add_to(s.in_w, x + k * s.in_w, sums);
        from = sums;
      }
      for (Index j = 0; j < s.out_w; ++j) {
        const Averaged& column = s.columns[j];
        *y++ = sum_of_window(from + column.begin, column.end - column.begin) / divisor(row, column);
      }
    }
  }
}

void average_pool_grad(const AveragePool& s, const float* dy, float* shares, float* dx) {
  const bool whole =
      s.out_h == 1 && s.out_w == 1 && s.in_h == 1 && s.columns[0].begin == 0 && s.columns[0].end == s.in_w;
  for (Index plane = 0; plane < s.planes; ++plane, dx += s.in_h * s.in_w) {
    if (whole) {
      set_all(s.in_w, *dy++ / divisor(s.rows[0], s.columns[0]), dx);
      continue;
    }
    set_all(s.in_h * s.in_w, 0, dx);
    for (Index i = 0; i < s.out_h; ++i) {
      const Averaged& row = s.rows[i];
      set_all(s.in_w, 0, shares);
      for (Index j = 0; j < s.out_w; ++j) {
        const Averaged& column = s.columns[j];
        const float share = *dy++ / divisor(row, column);
        for (Index k = column.begin; k < column.end; ++k) shares[k] += share;
      }
      for (Index k = row.begin; k < row.end; ++k) add_to(s.in_w, shares, dx + k * s.in_w);
    }
  }
}

}  // namespace rookery::simd::ROOKERY_ISA
