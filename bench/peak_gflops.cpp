// What a core can do: the best rate of a plain loop of fused multiplications and additions of vectors in
// registers, on one thread, in GFLOP/s of float32. No product reaches it, so that shares of it flatter
// nobody.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>

#ifdef __x86_64__
#include <immintrin.h>

#include "models/base/libraries/format.hpp"
#endif

namespace rookery {
namespace {

// So many sums, as many as there are registers for, each with `rounds` numbers added to it in turns: enough
// that none waits for itself. All begin differently, or the compiler would make them one. Returns the
// floating-point operations; `result` keeps the loop from being left out.
using Loop = double (*)(std::int64_t rounds, float& result);

#ifdef __x86_64__
__attribute__((target("avx512f"))) double wide_loop(std::int64_t rounds, float& result) {
  constexpr std::size_t kSums = 24;
  __m512 sums[kSums];  // NOLINT(*-avoid-c-arrays): as a template's argument the type would lose its alignment
  for (std::size_t sum = 0; sum < kSums; ++sum) sums[sum] = _mm512_set1_ps(static_cast<float>(sum));
  const __m512 factor = _mm512_set1_ps(0.999F);
  const __m512 addend = _mm512_set1_ps(0.001F);
  for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 24
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, factor, addend);
  }
  for (const __m512& sum : sums) result += _mm512_cvtss_f32(sum);
  return 2.0 * 16 * kSums * static_cast<double>(rounds);
}

__attribute__((target("avx2,fma"))) double narrow_loop(std::int64_t rounds, float& result) {
  constexpr std::size_t kSums = 12;
  __m256 sums[kSums];  // NOLINT(*-avoid-c-arrays)
  for (std::size_t sum = 0; sum < kSums; ++sum) sums[sum] = _mm256_set1_ps(static_cast<float>(sum));
  const __m256 factor = _mm256_set1_ps(0.999F);
  const __m256 addend = _mm256_set1_ps(0.001F);
  for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, factor, addend);
  }
  for (const __m256& sum : sums) result += _mm256_cvtss_f32(sum);
  return 2.0 * 8 * kSums * static_cast<double>(rounds);
}
#endif

double plain_loop(std::int64_t rounds, float& result) {
  constexpr std::size_t kSums = 64;
  std::array<float, kSums> sums{};
  for (std::size_t sum = 0; sum < kSums; ++sum) sums[sum] = static_cast<float>(sum);
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (float& sum : sums) sum = std::fma(sum, 0.999F, 0.001F);
  }
  for (const float sum : sums) result += sum;
  return 2.0 * kSums * static_cast<double>(rounds);
}

Loop widest_loop() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return wide_loop;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return narrow_loop;
#endif
  return plain_loop;
}

}  // namespace
}  // namespace rookery

int main() {
  using namespace rookery;
  constexpr std::int64_t kRounds =
      200'000;  // about a millisecond, for which a core has no other work in between
  constexpr int kTries = 500;
  const Loop loop = widest_loop();
  float result = 0;
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const double operations = loop(kRounds, result);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    best = std::max(best, operations / taken.count() * 1e-9);
  }
  if (!std::isfinite(result)) return 1;
  fmt::print("{:.1f}\n", best);
  return 0;
}
