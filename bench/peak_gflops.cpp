// What a core can do: the best rate of a plain loop of fused multiplications and additions of vectors in
// registers, on one thread, in GFLOP/s of float32. No product reaches it, so that shares of it flatter
// nobody.
//
//   peak_gflops
//   peak_gflops --together N
//
// The latter prints what a thread does while N run on as many processors, by what one does alone, over some
// 20 milliseconds each: 1 where they are cores of their own. A virtual machine's processors may be two
// threads of one core, and from time to time.

#include <sched.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "models/base/libraries/format.hpp"
#include "models/base/process/program.hpp"

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

constexpr std::int64_t kRounds =
    200'000;  // a millisecond or two, for which a core has no other work in between

double best_rate() {
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
  return std::isfinite(result) ? best : 0;
}

// Loops that a thread on each of the first so many processors of this process ends in the same time, in all.
double loops_together(int threads) {
  constexpr std::chrono::milliseconds kTime(20);
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) processors.push_back(i);
  }
  std::vector<double> counts(static_cast<std::size_t>(threads));
  std::barrier start(threads);
  std::vector<std::jthread> team;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    team.emplace_back([&, i] {
      cpu_set_t own;
      CPU_ZERO(&own);
      CPU_SET(processors[i % processors.size()], &own);
      sched_setaffinity(0, sizeof own, &own);
      const Loop loop = widest_loop();
      float result = 0;
      start.arrive_and_wait();
      const auto end = std::chrono::steady_clock::now() + kTime;
      for (; std::chrono::steady_clock::now() < end; ++counts[i]) loop(kRounds / 100, result);
      if (!std::isfinite(result)) counts[i] = 0;
    });
  }
  team.clear();
  return std::accumulate(counts.begin(), counts.end(), 0.0);
}

}  // namespace
}  // namespace rookery

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  const rookery::ProgramInfo info{.name = "peak_gflops",
                                  .summary = "The GFLOP/s of float32 that a core reaches at best.",
                                  .example = "  peak_gflops --together 2\n"};
  rookery::ProgramOptions options;
  options.add_options()("together", po::value<int>(),
                        "instead, what a thread does while so many run, by what one does alone");
  return rookery::run_program(info, options, argc, argv, [](const rookery::ProgramArguments& told) {
    if (told.contains("together")) {
      const int threads = std::max(1, told["together"].as<int>());
      fmt::print("{:.2f}\n", rookery::loops_together(threads) / (threads * rookery::loops_together(1)));
      return rookery::kDone;
    }
    const double best = rookery::best_rate();
    fmt::print("{:.1f}\n", best);
    return best > 0 ? rookery::kDone : rookery::kFailed;
  });
}
