// Matrix products of small sizes: tiles of C stay in registers over the whole depth. For the .cpp files that
// instantiate it with their own multiply-add.
#pragma once

#include "models/kernels/simd/loops/vector.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

#if defined(__AVX512F__)
constexpr int kTileRows = 8;         // of 2 vectors each: 16 of 32 registers are sums
constexpr int kNarrowTileRows = 14;  // of 1 vector
#else
constexpr int kTileRows = 6;  // 12 of 16 registers
constexpr int kNarrowTileRows = 12;
#endif
constexpr int kTileVectors = 2;

// sum + a * b.
using PlusProduct = Floats (*)(Floats sum, Floats a, Floats b);

// Rows [i, i + kRows) and columns [j, j + columns) of C. Only in one function all of whose loops are unrolled
// do the sums stay in registers.
template <PlusProduct plus, int kRows, int kVectors>
inline void multiply_tile(const Product& p, Index i, Index j, Index columns) {
  float* const c = p.c + i * p.c_row + j;
  Floats sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const float row = p.rows == nullptr ? 0 : p.rows[i + r];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      sums[r][v] = p.columns == nullptr ? spread(row) : load(p.columns + j + v * kLanes);
  }
  if (p.accumulates) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const float* const from = c + r * p.c_row + v * kLanes;
        const Index left = columns - v * kLanes;
        sums[r][v] += left >= kLanes ? load(from) : load_part(from, left);
      }
    }
  }
  if (p.c_ahead != 0) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) __builtin_prefetch(c + r * p.c_row + v * kLanes + p.c_ahead, 1, 2);
    }
  }
  const auto column = [&](Index at) { return at / kImageBlock * p.b_block + at % kImageBlock; };
  const Index next_row = p.b_ahead_row == 0 ? p.b_row : p.b_ahead_row;
  for (Index chunk = 0; chunk < p.chunks; ++chunk) {
    const float* a = p.a + i * p.a_row + chunk * p.a_chunk;
    const float* b = p.b + column(j) + chunk * p.b_chunk;
    const float* next = b + p.b_ahead;
    for (Index k = 0; k < p.k; ++k, a += p.a_column, b += p.b_row, next += next_row) {
      __builtin_prefetch(a + p.a_ahead, 0, 2);
      Floats row[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        __builtin_prefetch(next + column(v * kLanes), 0, 2);
        row[v] = load(b + column(v * kLanes));
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const Floats factor = spread(a[r * p.a_row]);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sums[r][v] = plus(sums[r][v], factor, row[v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* const to = c + r * p.c_row + v * kLanes;
      if (p.relu) sums[r][v] = rectified(sums[r][v]);
      const Index left = columns - v * kLanes;
      if (left >= kLanes) {
        store(to, sums[r][v]);
      } else {
        store_part(to, sums[r][v], left);
      }
    }
  }
}

template <PlusProduct plus, int kVectors, int kRows>
void multiply_few_rows(const Product& p, Index i, Index rows, Index j, Index columns) {
  if (rows == kRows) {
    multiply_tile<plus, kRows, kVectors>(p, i, j, columns);
  } else if constexpr (kRows > 1) {
    multiply_few_rows<plus, kVectors, kRows - 1>(p, i, rows, j, columns);
  }
}

// All rows of a band of columns, whose part of B stays in the first-level cache. The last two tiles are of
// one height, or nearly so: one with few rows would wait for each of its sums.
template <PlusProduct plus, int kVectors>
void multiply_column_band(const Product& p, Index j, Index columns) {
  constexpr int kRows = kVectors == 1 ? kNarrowTileRows : kTileRows;
  Index i = 0;
  for (; p.m - i >= 2 * kRows || p.m - i == kRows; i += kRows)
    multiply_tile<plus, kRows, kVectors>(p, i, j, columns);
  const Index left = p.m - i;
  const Index first = left > kRows ? left / 2 : 0;
  if (first > 0) multiply_few_rows<plus, kVectors, kRows>(p, i, first, j, columns);
  if (left > first) multiply_few_rows<plus, kVectors, kRows>(p, i + first, left - first, j, columns);
}

template <PlusProduct plus>
void multiply_by_tiles(const Product& p) {
  constexpr Index kWide = kTileVectors * kLanes;
  Index j = 0;
  for (; p.n - j > kLanes; j += kWide) {
    multiply_column_band<plus, kTileVectors>(p, j, p.n - j < kWide ? p.n - j : kWide);
  }
  if (j < p.n) multiply_column_band<plus, 1>(p, j, p.n - j);
}

}  // namespace

}  // namespace rookery::simd::ROOKERY_ISA
