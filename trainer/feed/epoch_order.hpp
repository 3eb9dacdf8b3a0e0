// Says in which order an epoch goes through the samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rookery {

// The places of the training samples, among themselves, in the order of epoch `epoch`: a function of their
// number, the seed and the epoch.
std::vector<std::int64_t> epoch_places(std::int64_t train_samples, std::uint64_t seed, std::int64_t epoch);

// The ids of the training samples in the order of epoch `epoch`: a function of the seed and the epoch.
std::vector<std::int64_t> epoch_order(std::span<const std::int64_t> train_ids, std::uint64_t seed,
                                      std::int64_t epoch);

}  // namespace rookery
