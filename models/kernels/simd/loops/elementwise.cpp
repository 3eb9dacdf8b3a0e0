// Maps over arrays: relu, sums, dropout.
#include "models/kernels/simd/loops/vector.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

constexpr Index kGroup = 2 * kLanes;  // elements that one round of counters gives: 4 words for kLanes / 2

inline Longs multiply_low(Longs a, std::uint32_t b) {
#if defined(__AVX512F__)
  return reinterpret_cast<Longs>(_mm512_mul_epu32(reinterpret_cast<__m512i>(a), _mm512_set1_epi64(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Longs>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), _mm256_set1_epi64x(b)));
#elif defined(__SSE2__)
  return reinterpret_cast<Longs>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), _mm_set1_epi64x(b)));
#else
  return (a & 0xFFFFFFFFU) * b;
#endif
}

// a0 b0 a1 b1 …: the first and the second half.
inline void interleave(Longs a, Longs b, Longs& first, Longs& second) {
#if defined(__AVX512F__)
  first = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  second = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#elif defined(__AVX2__)
  first = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  second = __builtin_shufflevector(a, b, 2, 6, 3, 7);
#else
  first = __builtin_shufflevector(a, b, 0, 2);
  second = __builtin_shufflevector(a, b, 1, 3);
#endif
}

// The words of counters block, block + 1, …, four a counter (Philox4x32-10, models/base/rng.hpp).
inline void philox_words(const Dropout& s, std::uint64_t block, Words& first, Words& second) {
  constexpr std::uint64_t kLow = 0xFFFFFFFFU;
  Longs counter = Longs{} + block;
  for (Index i = 0; i < kLanes / 2; ++i) counter[i] += static_cast<std::uint64_t>(i);
  Longs c0 = counter;  // only the low half of each lane counts
  Longs c1 = counter >> 32;
  Longs c2 = Longs{} + (s.stream & kLow);
  Longs c3 = Longs{} + (s.stream >> 32);
  std::uint32_t key_low = s.key_low;
  std::uint32_t key_high = s.key_high;
  for (int round = 0; round < 10; ++round) {
    const Longs product0 = multiply_low(c0, 0xD2511F53U);
    const Longs product1 = multiply_low(c2, 0xCD9E8D57U);
    c0 = (product1 >> 32) ^ c1 ^ (Longs{} + key_low);
    c2 = (product0 >> 32) ^ c3 ^ (Longs{} + key_high);
    c1 = product1;
    c3 = product0;
    key_low += 0x9E3779B9U;
    key_high += 0xBB67AE85U;
  }
  Longs halves[2];
  interleave((c0 & kLow) | (c1 << 32), (c2 & kLow) | (c3 << 32), halves[0], halves[1]);
  first = reinterpret_cast<Words>(halves[0]);
  second = reinterpret_cast<Words>(halves[1]);
}

inline void drop(const Dropout& s, Words words, const float* x, float* y, std::uint8_t* mask) {
  const Ints kept = words >= Words{} + s.threshold;
  const Floats scaled = load(x) * s.scale;
  store(y, kept ? scaled : Floats{});
  store_bytes(mask, kept & 1);
}

}  // namespace

void relu(Index n, const float* x, float* y) {
  const auto map = [](Floats v) { return v < 0 ? Floats{} : v; };  // a NaN stays one
  for_vectors(
      n, [&](Index i) { store(y + i, map(load(x + i))); },
      [&](Index i, Index count) { store_part(y + i, map(load_part(x + i, count)), count); });
}

void relu_grad(Index n, const float* dy, const float* y, float* dx) {
  const auto map = [](Floats gradient, Floats value) { return value > 0 ? gradient : Floats{}; };
  for_vectors(
      n, [&](Index i) { store(dx + i, map(load(dy + i), load(y + i))); },
      [&](Index i, Index count) {
        store_part(dx + i, map(load_part(dy + i, count), load_part(y + i, count)), count);
      });
}

void add(Index n, const float* a, const float* b, float* sum) {
  for_vectors(
      n, [&](Index i) { store(sum + i, load(a + i) + load(b + i)); },
      [&](Index i, Index count) {
        store_part(sum + i, load_part(a + i, count) + load_part(b + i, count), count);
      });
}

void dropout(const Dropout& s, const float* x, float* y, std::uint8_t* mask) {
  Index i = 0;
  Words first;
  Words second;
  for (; i + kGroup <= s.elements; i += kGroup) {
    philox_words(s, static_cast<std::uint64_t>(i / 4), first, second);
    drop(s, first, x + i, y + i, mask + i);
    drop(s, second, x + i + kLanes, y + i + kLanes, mask + i + kLanes);
  }
  if (i == s.elements) return;
  philox_words(s, static_cast<std::uint64_t>(i / 4), first, second);
  std::uint32_t words[kGroup];
  store(words, first);
  store(words + kLanes, second);
  for (Index j = 0; i < s.elements; ++i, ++j) {
    const bool kept = words[j] >= s.threshold;
    mask[i] = kept ? 1 : 0;
    y[i] = kept ? x[i] * s.scale : 0;
  }
}

void dropout_grad(Index n, float scale, const float* dy, const std::uint8_t* mask, float* dx) {
  Index i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Ints kept = load_bytes(mask + i) != 0;
    const Floats scaled = load(dy + i) * scale;
    store(dx + i, kept ? scaled : Floats{});
  }
  for (; i < n; ++i) dx[i] = mask[i] != 0 ? dy[i] * scale : 0;
}

}  // namespace rookery::simd::ROOKERY_ISA
