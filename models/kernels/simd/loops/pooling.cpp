// Max-pooling with 2 x 2 windows, 2 apart: what nearly every small network uses.
#include "models/kernels/simd/loops/vector.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

// Quads are the widest vector that narrow maps still fill.
using Quad [[gnu::vector_size(16)]] = float;
using QuadInts [[gnu::vector_size(16)]] = std::int32_t;
using QuadBytes [[gnu::vector_size(4)]] = std::uint8_t;

// Where `value` beats `best`: it is larger, or a NaN.
inline QuadInts beats(Quad value, Quad best) {
  return (value > best) | (value != value);
}

inline void pool_quad(const float* top, const float* bottom, float* y, std::uint8_t* window) {
  const Quad a = load_as<Quad>(top);
  const Quad b = load_as<Quad>(top + 4);
  const Quad c = load_as<Quad>(bottom);
  const Quad d = load_as<Quad>(bottom + 4);
  const Quad values[4]{__builtin_shufflevector(a, b, 0, 2, 4, 6), __builtin_shufflevector(a, b, 1, 3, 5, 7),
                       __builtin_shufflevector(c, d, 0, 2, 4, 6), __builtin_shufflevector(c, d, 1, 3, 5, 7)};
  Quad best = values[0];
  QuadInts index{};
  for (int tap = 1; tap < 4; ++tap) {
    const QuadInts better = beats(values[tap], best);
    best = better ? values[tap] : best;
    index = better ? QuadInts{} + tap : index;
  }
  store(y, best);
  if (window != nullptr) store(window, __builtin_convertvector(index, QuadBytes));
}

inline void pool_one(const float* top, const float* bottom, float* y, std::uint8_t* window) {
  const float values[4]{top[0], top[1], bottom[0], bottom[1]};
  float best = values[0];
  std::uint8_t index = 0;
  for (std::uint8_t tap = 1; tap < 4; ++tap) {
    const bool better = values[tap] > best || values[tap] != values[tap];
    best = better ? values[tap] : best;
    index = better ? tap : index;
  }
  *y = best;
  if (window != nullptr) *window = index;
}

inline void unpool_quad(const float* dy, const std::uint8_t* window, float* top, float* bottom) {
  const Quad gradient = load_as<Quad>(dy);
  const QuadInts index = __builtin_convertvector(load_as<QuadBytes>(window), QuadInts);
  Quad parts[4];
  for (int tap = 0; tap < 4; ++tap) parts[tap] = index == tap ? gradient : Quad{};
  store(top, __builtin_shufflevector(parts[0], parts[1], 0, 4, 1, 5));
  store(top + 4, __builtin_shufflevector(parts[0], parts[1], 2, 6, 3, 7));
  store(bottom, __builtin_shufflevector(parts[2], parts[3], 0, 4, 1, 5));
  store(bottom + 4, __builtin_shufflevector(parts[2], parts[3], 2, 6, 3, 7));
}

inline void unpool_one(float dy, std::uint8_t window, float* top, float* bottom) {
  top[0] = window == 0 ? dy : 0;
  top[1] = window == 1 ? dy : 0;
  bottom[0] = window == 2 ? dy : 0;
  bottom[1] = window == 3 ? dy : 0;
}

inline Index rows_of(const HalvingPool& s) {
  return s.planes * s.out_h;
}

// First element of the input row above output row `row`.
inline Index top_of(const HalvingPool& s, Index row) {
  return (row / s.out_h * s.in_h + row % s.out_h * 2) * s.in_w;
}

#if defined(__AVX512F__)

// Planes whose rows are narrower than a vector and follow each other without a gap: permutations, which
// depend on the width alone, sort 64 inputs into the 16 values of each place in the window.
constexpr Index kNarrow = 16;
using Indices = __m512i;

template <typename At>
inline Indices indices(At at) {
  alignas(64) std::int32_t values[kNarrow];
  for (std::int32_t k = 0; k < kNarrow; ++k) values[k] = at(k);
  return _mm512_load_si512(values);
}

inline Floats pick(Floats a, Indices from, Floats b) {
  return _mm512_permutex2var_ps(a, from, b);
}

inline bool is_narrow(const HalvingPool& s) {
  const bool power = s.in_w == 2 || s.in_w == 4 || s.in_w == 8 || s.in_w == 16;
  return power && s.in_w == 2 * s.out_w && s.in_h == 2 * s.out_h;
}

inline Index narrow_groups(const HalvingPool& s) {
  return is_narrow(s) ? s.planes * s.out_h * s.out_w / kNarrow : 0;
}

void pool_narrow(const HalvingPool& s, const float* x, float* y, std::uint8_t* window) {
  const auto width = static_cast<std::int32_t>(s.in_w);
  const Indices top = indices([=](std::int32_t k) { return k / width * 2 * width + k % width; });
  const Indices bottom = _mm512_add_epi32(top, _mm512_set1_epi32(width));
  const Indices even = indices([](std::int32_t k) { return 2 * k; });
  const Indices odd = indices([](std::int32_t k) { return 2 * k + 1; });
  for (Index group = 0; group < narrow_groups(s); ++group) {
    const float* from = x + group * 4 * kNarrow;
    const Floats v[4]{load(from), load(from + 16), load(from + 32), load(from + 48)};
    const Floats tops[2]{pick(v[0], top, v[1]), pick(v[2], top, v[3])};
    const Floats bottoms[2]{pick(v[0], bottom, v[1]), pick(v[2], bottom, v[3])};
    const Floats values[4]{pick(tops[0], even, tops[1]), pick(tops[0], odd, tops[1]),
                           pick(bottoms[0], even, bottoms[1]), pick(bottoms[0], odd, bottoms[1])};
    Floats best = values[0];
    Indices index = _mm512_setzero_si512();
    for (int tap = 1; tap < 4; ++tap) {
      const __mmask16 better = _mm512_cmp_ps_mask(values[tap], best, _CMP_GT_OQ) |
                               _mm512_cmp_ps_mask(values[tap], values[tap], _CMP_UNORD_Q);
      best = _mm512_mask_mov_ps(best, better, values[tap]);
      index = _mm512_mask_mov_epi32(index, better, _mm512_set1_epi32(tap));
    }
    store(y + group * kNarrow, best);
    if (window != nullptr) store(window + group * kNarrow, _mm512_cvtepi32_epi8(index));
  }
}

void unpool_narrow(const HalvingPool& s, const float* dy, const std::uint8_t* window, float* dx) {
  const auto width = static_cast<std::int32_t>(s.in_w);
  const Indices low = indices([](std::int32_t k) { return k / 2 + k % 2 * 16; });
  const Indices high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  const auto source = [=](std::int32_t place) {
    return place / (2 * width) * width + place % width + place / width % 2 * 16;
  };
  const Indices first = indices(source);
  const Indices second = indices([=](std::int32_t k) { return source(k + 16); });
  for (Index group = 0; group < narrow_groups(s); ++group) {
    const Floats gradient = load(dy + group * kNarrow);
    const Indices index = _mm512_cvtepu8_epi32(load_as<__m128i>(window + group * kNarrow));
    Floats parts[4];
    for (int tap = 0; tap < 4; ++tap) {
      parts[tap] = _mm512_maskz_mov_ps(_mm512_cmpeq_epi32_mask(index, _mm512_set1_epi32(tap)), gradient);
    }
    float* to = dx + group * 4 * kNarrow;
    const Indices halves[2]{low, high};
    for (const Indices& half : halves) {
      const Floats top = pick(parts[0], half, parts[1]);
      const Floats bottom = pick(parts[2], half, parts[3]);
      store(to, pick(top, first, bottom));
      store(to + 16, pick(top, second, bottom));
      to += 32;
    }
  }
}

#else

inline Index narrow_groups(const HalvingPool&) {
  return 0;
}
constexpr Index kNarrow = 1;
inline void pool_narrow(const HalvingPool&, const float*, float*, std::uint8_t*) {}
inline void unpool_narrow(const HalvingPool&, const float*, const std::uint8_t*, float*) {}

#endif

}  // namespace

void pool_halves(const HalvingPool& s, const float* x, float* y, std::uint8_t* window) {
  pool_narrow(s, x, y, window);
  for (Index row = narrow_groups(s) * kNarrow / s.out_w; row < rows_of(s); ++row) {
    const float* top = x + top_of(s, row);
    const float* bottom = top + s.in_w;
    Index j = 0;
    const auto at = [&](Index column) { return row * s.out_w + column; };
    const auto window_at = [&](Index column) { return window == nullptr ? nullptr : window + at(column); };
    for (; j + 4 <= s.out_w; j += 4) pool_quad(top + 2 * j, bottom + 2 * j, y + at(j), window_at(j));
    for (; j < s.out_w; ++j) pool_one(top + 2 * j, bottom + 2 * j, y + at(j), window_at(j));
  }
}

void pool_halves_grad(const HalvingPool& s, const float* dy, const std::uint8_t* window, float* dx) {
  const bool covers = s.in_h == 2 * s.out_h && s.in_w == 2 * s.out_w;
  if (!covers) __builtin_memset(dx, 0, static_cast<std::size_t>(s.planes * s.in_h * s.in_w) * sizeof(float));
  unpool_narrow(s, dy, window, dx);
  for (Index row = narrow_groups(s) * kNarrow / s.out_w; row < rows_of(s); ++row) {
    float* top = dx + top_of(s, row);
    float* bottom = top + s.in_w;
    Index j = 0;
    for (; j + 4 <= s.out_w; j += 4) {
      unpool_quad(dy + row * s.out_w + j, window + row * s.out_w + j, top + 2 * j, bottom + 2 * j);
    }
    for (; j < s.out_w; ++j) {
      unpool_one(dy[row * s.out_w + j], window[row * s.out_w + j], top + 2 * j, bottom + 2 * j);
    }
  }
}

}  // namespace rookery::simd::ROOKERY_ISA
