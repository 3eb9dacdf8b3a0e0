// Matrix products of small sizes, and other sums over rows and columns.
#include "models/kernels/simd/loops/product_tiles.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

#if defined(__AVX512F__)
constexpr int kDotRows = 4;  // by 5 columns
#else
constexpr int kDotRows = 2;
#endif
constexpr int kDotColumns = 5;

// Only where all of its loops are unrolled do the sums stay in registers.
template <int kRows, int kColumns>
inline void dot_tile(const DotProduct& p, Index i, Index j) {
  Floats sums[kRows][kColumns];
  float* const home = p.sums + (i * p.n + j) * kLanes;
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 5
    for (int c = 0; c < kColumns; ++c) sums[r][c] = load(home + (r * p.n + c) * kLanes);
  }
  for (Index chunk = 0; chunk < p.chunks; ++chunk) {
    const float* a = p.a + i * p.a_row + chunk * p.a_chunk;
    const float* b = p.b + j * p.b_row + chunk * p.b_chunk;
    for (Index k = 0; k < p.run; k += kLanes) {
      Floats rows[kRows];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) rows[r] = load(a + r * p.a_row + k);
#pragma GCC unroll 5
      for (int c = 0; c < kColumns; ++c) {
        const Floats column = load(b + c * p.b_row + k);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) sums[r][c] = plus_product(sums[r][c], rows[r], column);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 5
    for (int c = 0; c < kColumns; ++c) store(home + (r * p.n + c) * kLanes, sums[r][c]);
  }
}

template <int kRows>
void dot_row_band(const DotProduct& p, Index i) {
  Index j = 0;
  for (; j + kDotColumns <= p.n; j += kDotColumns) dot_tile<kRows, kDotColumns>(p, i, j);
  for (; j < p.n; ++j) dot_tile<kRows, 1>(p, i, j);
}

}  // namespace

void multiply(const Product& p) {
  multiply_by_tiles<plus_product>(p);
}

void multiply_dots(const DotProduct& p) {
  Index i = 0;
  for (; i + kDotRows <= p.m; i += kDotRows) dot_row_band<kDotRows>(p, i);
  for (; i < p.m; ++i) dot_row_band<1>(p, i);
}

void sum_lanes(Index n, const float* sums, float* out) {
  for (Index i = 0; i < n; ++i) out[i] = sum_of(load(sums + i * kLanes));
}

// The numbers of a vector's lanes, as a list that templates can take apart.
template <int... kLane>
struct LaneList {};
template <int kCount, int... kBehind>
struct LanesTo : LanesTo<kCount - 1, kCount - 1, kBehind...> {};
template <int... kLane>
struct LanesTo<0, kLane...> {
  using List = LaneList<kLane...>;
};

// In a square of vectors halves, quarters, … of neighbours change places.
template <int kHalf, int... kLane>
[[gnu::always_inline]] inline void exchange(Floats (&rows)[kLanes], LaneList<kLane...> lanes) {
#pragma GCC unroll 16
  for (Index i = 0; i < kLanes; ++i) {
    if ((i & kHalf) != 0) continue;
    const Floats a = rows[i];
    const Floats b = rows[i + kHalf];
    rows[i] = __builtin_shufflevector(a, b, ((kLane & kHalf) == 0 ? kLane : kLane - kHalf + kLanes)...);
    rows[i + kHalf] =
        __builtin_shufflevector(a, b, ((kLane & kHalf) == 0 ? kLane + kHalf : kLane + kLanes)...);
  }
  if constexpr (kHalf > 1) exchange<kHalf / 2>(rows, lanes);
}

// Of its first rows and columns alone; behind its rows zeros, where whole vectors are stored.
template <bool kWhole>
inline void transpose_part(Index rows, Index columns, const float* from, Index from_row, float* to,
                           Index to_row) {
  Floats square[kLanes];
#pragma GCC unroll 16
  for (Index i = 0; i < kLanes; ++i)
    square[i] = i < rows ? load_part(from + i * from_row, columns) : Floats{};
  exchange<kLanes / 2>(square, LanesTo<kLanes>::List());
#pragma GCC unroll 16
  for (Index j = 0; j < kLanes; ++j) {
    if (j >= columns) continue;
    if (kWhole || rows == kLanes) {
      store(to + j * to_row, square[j]);
    } else {
      store_part(to + j * to_row, square[j], rows);
    }
  }
}

inline void transpose_square(const float* from, Index from_row, float* to, Index to_row) {
  Floats rows[kLanes];
#pragma GCC unroll 16
  for (Index i = 0; i < kLanes; ++i) rows[i] = load(from + i * from_row);
  exchange<kLanes / 2>(rows, LanesTo<kLanes>::List());
#pragma GCC unroll 16
  for (Index i = 0; i < kLanes; ++i) store(to + i * to_row, rows[i]);
}

template <bool kWhole>
inline void transpose_all(Index rows, Index columns, const float* from, Index from_row, float* to,
                          Index to_row) {
  for (Index i = 0; i < rows; i += kLanes) {
    const Index height = rows - i < kLanes ? rows - i : kLanes;
    for (Index j = 0; j < columns; j += kLanes) {
      const Index width = columns - j < kLanes ? columns - j : kLanes;
      const float* corner = from + i * from_row + j;
      float* turned = to + j * to_row + i;
      if (height == kLanes && width == kLanes) {
        transpose_square(corner, from_row, turned, to_row);
      } else {
        transpose_part<kWhole>(height, width, corner, from_row, turned, to_row);
      }
    }
  }
}

void transpose(Index rows, Index columns, const float* from, Index from_row, float* to, Index to_row) {
  transpose_all<false>(rows, columns, from, from_row, to, to_row);
}

void transpose_whole(Index rows, Index columns, const float* from, Index from_row, float* to, Index to_row) {
  transpose_all<true>(rows, columns, from, from_row, to, to_row);
}

void column_sums(Index rows, Index n, const float* x, float* sums) {
  constexpr Index kTogether = 4;  // hide the time that a sum takes
  Index j = 0;
  for (; j + kTogether * kLanes <= n; j += kTogether * kLanes) {
    Floats sum[kTogether] = {};
    for (Index i = 0; i < rows; ++i) {
      for (Index v = 0; v < kTogether; ++v) sum[v] += load(x + i * n + j + v * kLanes);
    }
    for (Index v = 0; v < kTogether; ++v) store(sums + j + v * kLanes, sum[v]);
  }
  for (; j < n; j += kLanes) {
    const Index count = n - j;
    Floats sum{};
    if (count >= kLanes) {
      for (Index i = 0; i < rows; ++i) sum += load(x + i * n + j);
      store(sums + j, sum);
    } else {
      for (Index i = 0; i < rows; ++i) sum += load_part(x + i * n + j, count);
      store_part(sums + j, sum, count);
    }
  }
}

}  // namespace rookery::simd::ROOKERY_ISA
