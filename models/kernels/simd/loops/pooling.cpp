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

// Two output rows of two make a quad of a 4 x 4 plane; rows of the plane lie one after the other.
inline Index rows_of(const HalvingPool& s) {
  return s.planes * s.out_h;
}

// First element of the input row above output row `row`.
inline Index top_of(const HalvingPool& s, Index row) {
  return (row / s.out_h * s.in_h + row % s.out_h * 2) * s.in_w;
}

}  // namespace

void pool_halves(const HalvingPool& s, const float* x, float* y, std::uint8_t* window) {
  for (Index row = 0; row < rows_of(s); ++row) {
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
  for (Index row = 0; row < rows_of(s); ++row) {
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
