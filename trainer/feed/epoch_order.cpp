#include "trainer/feed/epoch_order.hpp"

#include "models/base/rng.hpp"

namespace rookery {

std::vector<std::int64_t> epoch_order(std::span<const std::int64_t> train_ids, std::uint64_t seed,
                                      std::int64_t epoch) {
  std::vector<std::int64_t> order =
      random_permutation(static_cast<std::int64_t>(train_ids.size()), rng_key(seed, "epoch_order"),
                         static_cast<std::uint64_t>(epoch));
  for (std::int64_t& position : order) position = train_ids[position];
  return order;
}

}  // namespace rookery
