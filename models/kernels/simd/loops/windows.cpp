// A convolution's weight spread out into a dense matrix, and the reverse. Where a window and what it becomes
// in a row of the matrix fit into a vector, a row is one permutation.
#include "models/kernels/simd/loops/vector.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

// The windows along one kind of channel: how many, and how far apart among the weights and in the matrix.
struct Axis {
  Index channels, weights, places;
};

inline Axis inputs(const SpreadWindows& s) {
  return {s.in_channels, s.taps, s.in_step};
}
inline Axis outputs(const SpreadWindows& s) {
  return {s.out_channels, s.in_channels * s.taps, s.out_step};
}

// body(a window's first weight, its first place in the matrix) for every window, or for every `step`th along
// the inner axis.
template <typename Body>
inline void for_windows(const Axis& outer, const Axis& inner, Index step, Body body) {
  for (Index i = 0; i < outer.channels; ++i) {
    for (Index j = 0; j < inner.channels; j += step)
      body(i * outer.weights + j * inner.weights, i * outer.places + j * inner.places);
  }
}

#if defined(__AVX512F__)

constexpr Index kMostRows = 16;
constexpr Index kMostNeighbours = 4;

inline __mmask16 first(Index count) {
  return static_cast<__mmask16>((1U << count) - 1);
}

// The axis along which windows lie side by side in a row of the matrix, if there is one.
inline bool is_along_outputs(const SpreadWindows& s) {
  return s.out_step == s.columns;
}
inline Axis inner(const SpreadWindows& s) {
  return is_along_outputs(s) ? outputs(s) : inputs(s);
}
inline Axis outer(const SpreadWindows& s) {
  return is_along_outputs(s) ? inputs(s) : outputs(s);
}

// Such windows that together fill a vector; 1 where there are none.
inline Index neighbours(const SpreadWindows& s) {
  const Index count = kLanes / s.columns;
  const bool fill = inner(s).places == s.columns && count * s.columns == kLanes && count <= kMostNeighbours;
  return fill && inner(s).channels % count == 0 ? count : 1;
}

inline bool fits_vectors(const SpreadWindows& s) {
  return s.taps <= kLanes && s.columns <= kLanes && s.rows <= kMostRows;
}

// From a window to a row of the matrix, or from the row to the window: a permutation for every row and
// neighbour, and the lanes that it fills.
struct Permutations {
  __m512i from[kMostRows][kMostNeighbours];
  __mmask16 filled[kMostRows][kMostNeighbours];

  Permutations(const SpreadWindows& s, bool to_window) {
    for (Index row = 0; row < s.rows; ++row) {
      for (Index n = 0; n < neighbours(s); ++n) {
        alignas(64) std::int32_t lanes[kLanes]{};
        unsigned mask = 0;
        for (std::int32_t column = 0; column < s.columns; ++column) {
          const std::int32_t tap = s.tap_at[row * s.columns + column];
          if (tap < 0) continue;
          const auto lane = static_cast<std::int32_t>(n * s.columns) + column;
          lanes[to_window ? tap : lane] = to_window ? lane : tap;
          mask |= 1U << (to_window ? tap : lane);
        }
        from[row][n] = _mm512_load_si512(lanes);
        filled[row][n] = static_cast<__mmask16>(mask);
      }
    }
  }
};

template <Index kNeighbours>
void spread_by_permutations(const SpreadWindows& s, const float* weights, float* matrix) {
  const Permutations taps(s, false);
  const __mmask16 whole = first(kNeighbours * s.columns);
  for_windows(outer(s), inner(s), kNeighbours, [&](Index window, Index place) {
    __m512 values[kNeighbours];
    for (Index n = 0; n < kNeighbours; ++n)
      values[n] = _mm512_maskz_loadu_ps(first(s.taps), weights + window + n * inner(s).weights);
    for (Index row = 0; row < s.rows; ++row) {
      __m512 line = _mm512_setzero_ps();
      for (Index n = 0; n < kNeighbours; ++n)
        line = _mm512_mask_permutexvar_ps(line, taps.filled[row][n], taps.from[row][n], values[n]);
      float* to = matrix + place + row * s.row_step;
      if (kNeighbours > 1) {
        _mm512_storeu_ps(to, line);
      } else {
        _mm512_mask_storeu_ps(to, whole, line);
      }
    }
  });
}

template <Index kNeighbours>
void gather_by_permutations(const SpreadWindows& s, const float* matrix, float* weights) {
  const Permutations lanes(s, true);
  const __mmask16 whole = first(kNeighbours * s.columns);
  for_windows(outer(s), inner(s), kNeighbours, [&](Index window, Index place) {
    __m512 sums[kNeighbours]{};
    for (Index row = 0; row < s.rows; ++row) {
      const __m512 line = _mm512_maskz_loadu_ps(whole, matrix + place + row * s.row_step);
      for (Index n = 0; n < kNeighbours; ++n)
        sums[n] += _mm512_maskz_permutexvar_ps(lanes.filled[row][n], lanes.from[row][n], line);
    }
    for (Index n = 0; n < kNeighbours; ++n)
      _mm512_mask_storeu_ps(weights + window + n * inner(s).weights, first(s.taps), sums[n]);
  });
}

// Spreads or gathers where permutations can.
inline bool by_permutations(const SpreadWindows& s, const float* from, float* to, bool to_window) {
  if (!fits_vectors(s)) return false;
  using Run = void (*)(const SpreadWindows&, const float*, float*);
  static constexpr Run kSpread[]{spread_by_permutations<1>, spread_by_permutations<2>,
                                 spread_by_permutations<4>};
  static constexpr Run kGather[]{gather_by_permutations<1>, gather_by_permutations<2>,
                                 gather_by_permutations<4>};
  const Index way = neighbours(s) / 2;
  (to_window ? kGather : kSpread)[way](s, from, to);
  return true;
}

#else

inline bool by_permutations(const SpreadWindows&, const float*, float*, bool) {
  return false;
}

#endif

}  // namespace

void spread_windows(const SpreadWindows& s, const float* weights, float* matrix) {
  if (by_permutations(s, weights, matrix, false)) return;
  for_windows(inputs(s), outputs(s), 1, [&](Index window, Index place) {
    for (Index row = 0; row < s.rows; ++row) {
      for (Index column = 0; column < s.columns; ++column) {
        const std::int32_t tap = s.tap_at[row * s.columns + column];
        matrix[place + row * s.row_step + column] = tap < 0 ? 0 : weights[window + tap];
      }
    }
  });
}

void gather_windows(const SpreadWindows& s, const float* matrix, float* weights) {
  if (by_permutations(s, matrix, weights, true)) return;
  for_windows(inputs(s), outputs(s), 1, [&](Index window, Index place) {
    for (Index tap = 0; tap < s.taps; ++tap) weights[window + tap] = 0;
    for (Index row = 0; row < s.rows; ++row) {
      for (Index column = 0; column < s.columns; ++column) {
        const std::int32_t tap = s.tap_at[row * s.columns + column];
        if (tap >= 0) weights[window + tap] += matrix[place + row * s.row_step + column];
      }
    }
  });
}

}  // namespace rookery::simd::ROOKERY_ISA
