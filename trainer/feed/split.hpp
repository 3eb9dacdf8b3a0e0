// Says which samples of a data set train and which validate.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/data/dataset.hpp"
#include "trainer/settings/batch_sizes.hpp"
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
// As the data set's name says, where it does; else as the settings do.
Split split_dataset(const Dataset& dataset, const TrainingSettings& settings);

// The sizes of a data set that a run needs to know, and plans with: memory includes the order of the samples.
DataSizes data_sizes(const Dataset& dataset, const TrainingSettings& settings);

// ConfigError when the data set has not as many samples as the plan was made for, or other ones.
void check_planned(const Dataset& dataset, const TrainingSettings& settings, const DataSizes& planned);

}  // namespace rookery
