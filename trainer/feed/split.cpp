#include "trainer/feed/split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/base/error.hpp"
#include "models/base/rng.hpp"

namespace rookery {

Split split_dataset(std::int64_t samples, const TrainingSettings& settings) {
  // 0.29 * 100 is a little less than 29; what is meant is 29.
  constexpr double kRounding = 1e-9;
  const auto train = static_cast<std::int64_t>(
      std::floor(settings.train_fraction * static_cast<double>(samples) * (1 + kRounding)));
  if (train < 1) {
    throw ConfigError(fmt::format("train_fraction: {} of {} samples leaves none to train on",
                                  settings.train_fraction, samples));
  }
  std::vector<std::int64_t> ids(samples);
  if (settings.split == "in_order") {
    for (std::int64_t i = 0; i < samples; ++i) ids[i] = i;
  } else {
    ids = random_permutation(samples, rng_key(settings.seed, "split"), 0);
  }
  const auto middle = ids.begin() + std::min(train, samples);
  return {{ids.begin(), middle}, {middle, ids.end()}};
}

DataSizes data_sizes(const Dataset& dataset, const TrainingSettings& settings) {
  const Split split = split_dataset(dataset.size(), settings);
  // Ids of all samples, and while an epoch's order is drawn those that train twice more.
  const std::int64_t ids = dataset.size() + 2 * std::ssize(split.train);
  return {.train_samples = std::ssize(split.train),
          .validation_samples = std::ssize(split.validation),
          .bytes = dataset.bytes() + ids * static_cast<std::int64_t>(sizeof(std::int64_t))};
}

void check_planned_samples(const Split& split, const TrainingSettings& settings, const DataSizes& planned) {
  if (std::ssize(split.train) == planned.train_samples &&
      std::ssize(split.validation) == planned.validation_samples)
    return;
  throw ConfigError(
      fmt::format("data set {} has {} samples to train and {} to validate with, the plan was made for {} "
                  "and {}: run clusterize again",
                  settings.data, split.train.size(), split.validation.size(), planned.train_samples,
                  planned.validation_samples));
}

}  // namespace rookery
