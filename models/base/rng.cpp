#include "models/base/rng.hpp"

#include <limits>
#include <numeric>
#include <utility>

#include "models/base/check.hpp"
#include "models/base/fnv.hpp"

namespace rookery {

RngKey rng_key(std::uint64_t seed, std::string_view name) {
  Fnv1a digest;
  digest.add(name);
  const std::uint64_t hash = digest.value();
  const PhiloxBlock mixed =
      philox({static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32), 0, 0},
             {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return {mixed[0], mixed[1]};
}

std::uint32_t CounterRng::next() {
  if (used_ == 4) {
    block_ = philox({static_cast<std::uint32_t>(block_index_), static_cast<std::uint32_t>(block_index_ >> 32),
                     static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)},
                    key_);
    ++block_index_;
    used_ = 0;
  }
  return block_[used_++];
}

std::uint32_t CounterRng::next_below(std::uint32_t bound) {
  ROOKERY_CHECK(bound > 0, "an empty range has no random number");
  const std::uint32_t threshold = (0U - bound) % bound;
  for (;;) {
    const std::uint64_t product = std::uint64_t{next()} * bound;
    if (static_cast<std::uint32_t>(product) >= threshold) return static_cast<std::uint32_t>(product >> 32);
  }
}

float CounterRng::next_float() {
  return static_cast<float>(next() >> 8) * 0x1p-24F;
}

std::vector<std::int64_t> random_permutation(std::int64_t n, RngKey key, std::uint64_t stream) {
  ROOKERY_CHECK(n >= 0 && n <= std::numeric_limits<std::uint32_t>::max(), "cannot permute {} things", n);
  std::vector<std::int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  CounterRng rng(key, stream);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[rng.next_below(static_cast<std::uint32_t>(i))]);
  }
  return order;
}

}  // namespace rookery
