#include "models/kernels/arithmetic.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "models/base/check.hpp"
#include "models/kernels/simd/loops/loops.hpp"
#include "models/kernels/threads.hpp"
#include "models/tensor/tensor.hpp"

namespace rookery::simd {

namespace {

// body(first element, elements) for parts of the whole, on the threads that kernels may use. No element's
// result depends on the parts.
template <typename Body>
void in_parts(std::size_t count, Body body) {
  constexpr Index kPart = 1 << 14;
  ROOKERY_CHECK(count % 16 == 0, "{} floats are not padded to blocks of 16", count);
  const auto all = static_cast<Index>(count);
  if (all <= kPart) return body(Index{0}, all);
  in_parallel((all + kPart - 1) / kPart,
              [&](Index part) { body(part * kPart, std::min(kPart, all - part * kPart)); });
}

// body(first, elements) for runs of any number of elements.
template <typename Body>
void for_elements(std::size_t count, Body body) {
  in_runs(static_cast<Index>(count), 1, body, kAlignment);
}

// A part of an array that may be absent.
float* from(float* array, Index first) {
  return array == nullptr ? nullptr : array + first;
}

KeptChange from(const KeptChange& kept, Index first) {
  return {.to = from(kept.to, first), .factor = kept.factor, .predicts = kept.predicts};
}

class HostArithmetic final : public Arithmetic {
 public:
  void adam_update(const AdamCoefficients& c, float* p, const float* g, float* m, float* v,
                   const KeptChange& kept, std::size_t count) const override {
    in_parts(count,
             [&](Index at, Index n) { loops().adam(c, n, p + at, g + at, m + at, v + at, from(kept, at)); });
  }

  void sgd_update(const SgdCoefficients& c, float* p, const float* g, float* buffer, const KeptChange& kept,
                  std::size_t count) const override {
    in_parts(count,
             [&](Index at, Index n) { loops().sgd(c, n, p + at, g + at, from(buffer, at), from(kept, at)); });
  }

  void rmsprop_update(const RmspropCoefficients& c, float* p, const float* g, float* square, float* mean,
                      float* buffer, const KeptChange& kept, std::size_t count) const override {
    in_parts(count, [&](Index at, Index n) {
      loops().rmsprop(c, n, p + at, g + at, square + at, from(mean, at), from(buffer, at), from(kept, at));
    });
  }

  void lion_update(const LionCoefficients& c, float* p, const float* g, float* m, const KeptChange& kept,
                   std::size_t count) const override {
    in_parts(count, [&](Index at, Index n) { loops().lion(c, n, p + at, g + at, m + at, from(kept, at)); });
  }

  void lamb_update(const LambCoefficients& c, double learning_rate, float* p, const float* g, float* m,
                   float* v, const KeptChange& kept, std::size_t count) const override {
    const LambNorms norms = lamb_norms(c, p, g, m, v, static_cast<Index>(count));
    const bool trusts = norms.parameter > 0 && norms.direction > 0;
    const double ratio = trusts ? std::sqrt(norms.parameter / norms.direction) : 1;
    const auto size = static_cast<float>(learning_rate * ratio);
    for_elements(count, [&](Index at, Index n) {
      loops().lamb_step(c, size, n, p + at, m + at, v + at, from(kept, at));
    });
  }

  // In blocks whose sums are added in their order.
  double sum_of_squares(const float* values, std::size_t count) const override {
    constexpr std::size_t kBlock = 1 << 16;
    std::vector<double> sums((count + kBlock - 1) / kBlock);
    in_runs(std::ssize(sums), kBlock, [&](Index first, Index blocks) {
      for (auto block = static_cast<std::size_t>(first); block < static_cast<std::size_t>(first + blocks);
           ++block)
        sums[block] = squares_of_block(values + block * kBlock, std::min(kBlock, count - block * kBlock));
    });
    return std::accumulate(sums.begin(), sums.end(), 0.0);
  }

  void add(float* total, const float* share, std::size_t count) const override {
    for_elements(count, [&](Index at, Index n) {
      for (Index i = at; i < at + n; ++i) total[i] += share[i];
    });
  }

  void scale(float* values, float factor, std::size_t count) const override {
    for_elements(count, [&](Index at, Index n) {
      for (Index i = at; i < at + n; ++i) values[i] *= factor;
    });
  }

  void scale_and_add(float* values, float factor, const float* offsets, std::size_t count) const override {
    for_elements(count,
                 [&](Index at, Index n) { loops().scale_and_add(n, factor, offsets + at, values + at); });
  }

 private:
  // In blocks whose sums are added in their order.
  static LambNorms lamb_norms(const LambCoefficients& c, const float* p, const float* g, float* m, float* v,
                              Index count) {
    std::vector<LambNorms> blocks(static_cast<std::size_t>((count + kLambBlock - 1) / kLambBlock));
    in_runs(std::ssize(blocks), kLambBlock, [&](Index first, Index some) {
      for (Index block = first; block < first + some; ++block) {
        const Index at = block * kLambBlock;
        blocks[static_cast<std::size_t>(block)] =
            loops().lamb_moments(c, std::min(kLambBlock, count - at), p + at, g + at, m + at, v + at);
      }
    });
    LambNorms norms;
    for (const LambNorms& block : blocks) {
      norms.parameter += block.parameter;
      norms.direction += block.direction;
    }
    return norms;
  }

  static double squares_of_block(const float* values, std::size_t count) {
    constexpr std::size_t kSums = 16;  // enough for the widest vectors
    std::array<double, kSums> sums{};
    std::size_t i = 0;
    for (; i + kSums <= count; i += kSums) {
      for (std::size_t j = 0; j < kSums; ++j) {
        const double value = values[i + j];
        sums[j] += value * value;
      }
    }
    for (std::size_t j = 0; i + j < count; ++j) {
      const double value = values[i + j];
      sums[j] += value * value;
    }
    return std::accumulate(sums.begin(), sums.end(), 0.0);
  }
};

}  // namespace
}  // namespace rookery::simd

namespace rookery {

const Arithmetic& host_arithmetic() {
  static const simd::HostArithmetic arithmetic;
  return arithmetic;
}

void copy_past_caches(float* to, const float* from, std::size_t count) {
#if defined(__SSE2__)
  constexpr std::size_t kLanes = 4;
  const auto is_aligned = [](const float* at) {
    return reinterpret_cast<std::uintptr_t>(at) % sizeof(__m128) == 0;
  };
  for (; count > 0 && !is_aligned(to); --count) *to++ = *from++;
  for (; count >= kLanes; count -= kLanes) {
    _mm_stream_ps(to, _mm_loadu_ps(from));
    to += kLanes;
    from += kLanes;
  }
  _mm_sfence();  // such stores are in no order with others, those that tell another thread of them among
                 // these
#endif
  std::copy_n(from, count, to);
}

}  // namespace rookery
