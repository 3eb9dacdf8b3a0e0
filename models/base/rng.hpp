// Counter-based random numbers: Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3" (SC 2011). A number depends only on (seed, name, stream, index), never on who drew
// what before, so that every cut of a model draws the same dropout masks and initial weights.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace rookery {

struct RngKey {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  bool operator==(const RngKey&) const = default;
};

// Key of the random numbers that the thing called `name` (a global op, parameter or purpose name)
// draws in a run with this seed.
RngKey rng_key(std::uint64_t seed, std::string_view name);

using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53U;
constexpr std::uint32_t kPhiloxMultiplier1 = 0xCD9E8D57U;
constexpr std::uint32_t kPhiloxWeyl0 = 0x9E3779B9U;
constexpr std::uint32_t kPhiloxWeyl1 = 0xBB67AE85U;
constexpr int kPhiloxRounds = 10;

// The four words of one counter value.
constexpr PhiloxBlock philox(PhiloxBlock counter, RngKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kPhiloxMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kPhiloxMultiplier1} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key.low,
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key.high,
               static_cast<std::uint32_t>(product0)};
    key.low += kPhiloxWeyl0;
    key.high += kPhiloxWeyl1;
  }
  return counter;
}

// A sequence of numbers at (key, stream). Streams separate steps, epochs and micro-batches.
class CounterRng {
 public:
  CounterRng(RngKey key, std::uint64_t stream) : key_(key), stream_(stream) {}

  std::uint32_t next();
  // Uniform in [0, bound), without bias (Lemire's rejection). bound > 0.
  std::uint32_t next_below(std::uint32_t bound);
  // Uniform in [0, 1), 24 bits.
  float next_float();

 private:
  RngKey key_;
  std::uint64_t stream_;
  std::uint64_t block_index_ = 0;
  PhiloxBlock block_{};
  int used_ = 4;
};

// A random permutation of 0 … n-1 (Fisher–Yates).
std::vector<std::int64_t> random_permutation(std::int64_t n, RngKey key, std::uint64_t stream);

}  // namespace rookery
