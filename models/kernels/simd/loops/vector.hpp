// The vector type of the instruction set that this file is compiled for, ROOKERY_ISA being the name of
// its namespace. Only for the .cpp files of this folder and those in it: inline functions of standard headers
// must stay out of them, because the linker would keep one copy for all instruction sets.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__x86_64__)
#include <emmintrin.h>
#endif

#include <cstdint>

#include "models/kernels/simd/loops/loops.hpp"

namespace rookery::simd::ROOKERY_ISA {

#if defined(__AVX512F__)
constexpr Index kLanes = 16;
#elif defined(__AVX2__)
constexpr Index kLanes = 8;
#else
constexpr Index kLanes = 4;
#endif

using Floats [[gnu::vector_size(kLanes * 4)]] = float;
using Ints [[gnu::vector_size(kLanes * 4)]] = std::int32_t;
using Words [[gnu::vector_size(kLanes * 4)]] = std::uint32_t;
using Longs [[gnu::vector_size(kLanes * 4)]] = std::uint64_t;  // half as many
using Bytes [[gnu::vector_size(kLanes)]] = std::uint8_t;

template <typename Vector>
inline Vector load_as(const void* from) {
  Vector vector;
  __builtin_memcpy(&vector, from, sizeof vector);
  return vector;
}

inline Floats load(const float* from) {
  return load_as<Floats>(from);
}

template <typename Vector>
inline void store(void* to, Vector vector) {
  __builtin_memcpy(to, &vector, sizeof vector);
}

inline Floats spread(float value) {
  return value - Floats{};
}

// sum + a * b, rounded once where the instruction set can: for sums that are the same whatever tile they are
// computed in. Where that is written as a product and a sum, the compiler decides for each place.
inline Floats plus_product(Floats sum, Floats a, Floats b) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, sum);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, sum);
#else
  return sum + a * b;
#endif
}

// The first `count` < kLanes elements, zeros behind them.
inline Floats load_part(const float* from, Index count) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1), from);
#elif defined(__AVX2__)
  const Ints lanes{0, 1, 2, 3, 4, 5, 6, 7};
  const Ints taken = lanes < static_cast<std::int32_t>(count);
  return _mm256_maskload_ps(from, reinterpret_cast<__m256i>(taken));
#else
  Floats vector{};
  for (Index i = 0; i < count; ++i) vector[i] = from[i];
  return vector;
#endif
}

inline void store_part(float* to, Floats vector, Index count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1U << count) - 1), vector);
#elif defined(__AVX2__)
  // AMD's processors take tens of cycles for a store under a mask.
  __m128 part = _mm256_castps256_ps128(vector);
  if ((count & 4) != 0) {
    _mm_storeu_ps(to, part);
    part = _mm256_extractf128_ps(vector, 1);
    to += 4;
  }
  if ((count & 2) != 0) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), part);
    part = _mm_movehl_ps(part, part);
    to += 2;
  }
  if ((count & 1) != 0) _mm_store_ss(to, part);
#else
  for (Index i = 0; i < count; ++i) to[i] = vector[i];
#endif
}

// kLanes bytes as numbers, and back.
inline Ints load_bytes(const std::uint8_t* from) {
#if defined(__AVX512F__)
  return reinterpret_cast<Ints>(_mm512_cvtepu8_epi32(load_as<__m128i>(from)));
#else
  return __builtin_convertvector(load_as<Bytes>(from), Ints);
#endif
}

inline void store_bytes(std::uint8_t* to, Ints values) {
#if defined(__AVX512F__)
  store(to, _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(values)));
#else
  store(to, __builtin_convertvector(values, Bytes));
#endif
}

// Zeros behind the first `count` elements.
inline Floats first_of(Floats vector, Index count) {
#if defined(__AVX512F__)
  return _mm512_maskz_mov_ps(static_cast<__mmask16>((1U << count) - 1), vector);
#else
  for (Index i = count; i < kLanes; ++i) vector[i] = 0;
  return vector;
#endif
}

// max(x, 0); a NaN stays one.
inline Floats rectified(Floats vector) {
  return vector <= 0 ? Floats{} : vector;
}

// `other` behind the first `count` elements.
inline Floats first_or(Floats vector, Index count, Floats other) {
#if defined(__AVX512F__)
  return _mm512_mask_mov_ps(other, static_cast<__mmask16>((1U << count) - 1), vector);
#elif defined(__AVX2__)
  const Ints lanes{0, 1, 2, 3, 4, 5, 6, 7};
  return lanes < static_cast<std::int32_t>(count) ? vector : other;
#else
  for (Index i = count; i < kLanes; ++i) vector[i] = other[i];
  return vector;
#endif
}

inline float sum_of(Floats vector) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps(vector);
#elif defined(__AVX2__)
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(vector), _mm256_extractf128_ps(vector, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
#else
  float part[kLanes];
  store(part, vector);
  for (Index half = kLanes / 2; half > 0; half /= 2) {
    for (Index i = 0; i < half; ++i) part[i] += part[i + half];
  }
  return part[0];
#endif
}

inline float max_of(Floats vector) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps(vector);
#elif defined(__AVX2__)
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(vector), _mm256_extractf128_ps(vector, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
#else
  float best = vector[0];
  for (Index i = 1; i < kLanes; ++i) best = vector[i] > best ? vector[i] : best;
  return best;
#endif
}

// body(place, count) over [0, n) in steps of a vector; count < kLanes in the last, partial one.
template <typename Whole, typename Part>
inline void for_vectors(Index n, Whole whole, Part part) {
  Index i = 0;
  for (; i + kLanes <= n; i += kLanes) whole(i);
  if (i < n) part(i, n - i);
}

}  // namespace rookery::simd::ROOKERY_ISA
