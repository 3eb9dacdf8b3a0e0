// A split says which samples of a data set train, which validate, and in which order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/data/dataset.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// Sample ids for training and validation: the first train_fraction of all (rounded down), in file
// order or in an order drawn from the seed.
struct Split {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> validation;
};
// ConfigError when none is left to train on.
Split split_dataset(std::int64_t samples, const TrainingSettings& settings);

// The sizes of a data set that a run needs to know, and plans with: memory includes the order of the samples.
DataSizes data_sizes(const Dataset& dataset, const TrainingSettings& settings);

// ConfigError with both numbers when the data set has not as many samples as the plan was made for.
void check_planned_samples(const Split& split, const TrainingSettings& settings, const DataSizes& planned);

// The order in which epoch `epoch` goes through the training ids.
std::vector<std::int64_t> epoch_order(std::span<const std::int64_t> train_ids, std::uint64_t seed,
                                      std::int64_t epoch);

}  // namespace rookery
