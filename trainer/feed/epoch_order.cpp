#include "trainer/feed/epoch_order.hpp"

#include "models/base/rng.hpp"

namespace rookery {

std::vector<std::int64_t> epoch_places(std::int64_t train_samples, std::uint64_t seed, std::int64_t epoch) {
  return random_permutation(train_samples, rng_key(seed, "epoch_order"), static_cast<std::uint64_t>(epoch));
}

std::vector<std::int64_t> epoch_order(std::span<const std::int64_t> train_ids, std::uint64_t seed,
                                      std::int64_t epoch) {
  std::vector<std::int64_t> order = epoch_places(std::ssize(train_ids), seed, epoch);
  for (std::int64_t& place : order) place = train_ids[place];
  return order;
}

}  // namespace rookery
