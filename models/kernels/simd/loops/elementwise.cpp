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

// What is the same for all elements of an array.
struct PhiloxKeys {
  static constexpr int kRounds = 10;
  Longs low[kRounds], high[kRounds];

  explicit PhiloxKeys(const Dropout& s) {
    std::uint32_t key_low = s.key_low;
    std::uint32_t key_high = s.key_high;
    for (int round = 0; round < kRounds; ++round) {
      low[round] = Longs{} + key_low;
      high[round] = Longs{} + key_high;
      key_low += 0x9E3779B9U;
      key_high += 0xBB67AE85U;
    }
  }
};

// The words of kCount times kLanes / 2 counters from `block` on, four words a counter (Philox4x32-10,
// models/base/rng.hpp). Several at once hide the time that a multiplication takes.
template <int kCount>
inline void philox_words(const Dropout& s, const PhiloxKeys& keys, std::uint64_t block,
                         Words (&words)[kCount][2]) {
  constexpr std::uint64_t kLow = 0xFFFFFFFFU;
  Longs places;
  for (Index i = 0; i < kLanes / 2; ++i) places[i] = static_cast<std::uint64_t>(i);
  Longs c[kCount][4];
  for (int k = 0; k < kCount; ++k) {
    c[k][0] =
        places + (s.first_block + block + static_cast<std::uint64_t>(k * kLanes / 2));  // low halves count
    c[k][1] = c[k][0] >> 32;
    c[k][2] = Longs{} + (s.stream & kLow);
    c[k][3] = Longs{} + (s.stream >> 32);
  }
  for (int round = 0; round < PhiloxKeys::kRounds; ++round) {
    for (int k = 0; k < kCount; ++k) {
      const Longs product0 = multiply_low(c[k][0], 0xD2511F53U);
      const Longs product1 = multiply_low(c[k][2], 0xCD9E8D57U);
      c[k][0] = (product1 >> 32) ^ c[k][1] ^ keys.low[round];
      c[k][2] = (product0 >> 32) ^ c[k][3] ^ keys.high[round];
      c[k][1] = product1;
      c[k][3] = product0;
    }
  }
  for (int k = 0; k < kCount; ++k) {
    Longs halves[2];
    interleave((c[k][0] & kLow) | (c[k][1] << 32), (c[k][2] & kLow) | (c[k][3] << 32), halves[0], halves[1]);
    words[k][0] = reinterpret_cast<Words>(halves[0]);
    words[k][1] = reinterpret_cast<Words>(halves[1]);
  }
}

inline void drop_vector(const Dropout& s, Words words, const float* x, float* y, std::uint8_t* mask) {
  const Ints kept = words >= Words{} + s.threshold;
  const Floats scaled = load(x) * s.scale;
  store(y, kept ? scaled : Floats{});
  store_bytes(mask, kept & 1);
}

// The elements from `i` on, as many as there are words for; returns where the next ones begin.
template <int kCount>
inline Index drop(const Dropout& s, const PhiloxKeys& keys, Index i, const float* x, float* y,
                  std::uint8_t* mask) {
  Words words[kCount][2];
  philox_words(s, keys, static_cast<std::uint64_t>(i / 4), words);
  for (int k = 0; k < 2 * kCount && i < s.elements; ++k, i += kLanes) {
    if (i + kLanes <= s.elements) {
      drop_vector(s, words[k / 2][k % 2], x + i, y + i, mask + i);
      continue;
    }
    for (Index j = 0; i + j < s.elements; ++j) {
      const bool kept = words[k / 2][k % 2][j] >= s.threshold;
      mask[i + j] = kept ? 1 : 0;
      y[i + j] = kept ? x[i + j] * s.scale : 0;
    }
  }
  return i;
}

}  // namespace

void relu(Index n, const float* x, float* y) {
  const auto map = [](Floats v) { return rectified(v); };
  for_vectors(
      n, [&](Index i) { store(y + i, map(load(x + i))); },
      [&](Index i, Index count) { store_part(y + i, map(load_part(x + i, count)), count); });
}

void relu_grad(Index n, const float* dy, const float* other, const float* y, float* dx) {
  const auto map = [](Floats gradient, Floats value) { return value > 0 ? gradient : Floats{}; };
  if (other != nullptr) {
    return for_vectors(
        n, [&](Index i) { store(dx + i, map(load(dy + i) + load(other + i), load(y + i))); },
        [&](Index i, Index count) {
          const Floats gradient = load_part(dy + i, count) + load_part(other + i, count);
          store_part(dx + i, map(gradient, load_part(y + i, count)), count);
        });
  }
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
  const PhiloxKeys keys(s);
  for (Index i = 0; i < s.elements;) {
    const Index left = s.elements - i;
    i = left > 2 * kGroup ? drop<4>(s, keys, i, x, y, mask)
        : left > kGroup   ? drop<2>(s, keys, i, x, y, mask)
                          : drop<1>(s, keys, i, x, y, mask);
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
