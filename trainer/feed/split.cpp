#include "trainer/feed/split.hpp"

#include <algorithm>
#include <cmath>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/rng.hpp"
#include "trainer/feed/batch_reader.hpp"

namespace rookery {

Split split_dataset(std::int64_t samples, const TrainingSettings& settings) {
  // 0.29 * 100 is a little less than 29; what is meant is 29.
  constexpr double kRounding = 1e-9;
  const double train = std::floor(settings.train_fraction * static_cast<double>(samples) * (1 + kRounding));
  if (!(train >= 1)) {  // nor NaN
    throw ConfigError(fmt::format("train_fraction: {} of {} samples leaves none to train on",
                                  settings.train_fraction, samples));
  }
  std::vector<std::int64_t> ids(samples);
  if (settings.split == "in_order") {
    for (std::int64_t i = 0; i < samples; ++i) ids[i] = i;
  } else {
    ids = random_permutation(samples, rng_key(settings.seed, "split"), 0);
  }
  const auto middle = ids.begin() + static_cast<std::int64_t>(std::min(train, static_cast<double>(samples)));
  return {{ids.begin(), middle}, {middle, ids.end()}};
}

Split split_dataset(const Dataset& dataset, const TrainingSettings& settings) {
  const auto own = dataset.split();
  if (!own) return split_dataset(dataset.size(), settings);
  TrainingSettings as_named = settings;
  as_named.split = "shuffled";
  as_named.train_fraction = own->train_fraction;
  as_named.seed = own->seed;
  return split_dataset(dataset.size(), as_named);
}

DataSizes data_sizes(const Dataset& dataset, const TrainingSettings& settings) {
  const Split split = split_dataset(dataset, settings);
  // Ids of all samples, and while an epoch's order is drawn those that train twice more; where it is drawn
  // while the one before is still read, three times.
  const std::int64_t orders = dataset.is_at_hand() ? 2 : 3;
  const std::int64_t ids = dataset.size() + orders * std::ssize(split.train);
  const std::int64_t read =
      dataset.is_at_hand() ? 0 : BatchReader::bytes(dataset, settings.reading, settings.batch_size);
  return {.train_samples = std::ssize(split.train),
          .validation_samples = std::ssize(split.validation),
          .bytes = dataset.most_bytes() + read + ids * static_cast<std::int64_t>(sizeof(std::int64_t)),
          .digest = dataset.digest()};
}

void check_planned(const Dataset& dataset, const TrainingSettings& settings, const DataSizes& planned) {
  const Split split = split_dataset(dataset, settings);
  if (std::ssize(split.train) == planned.train_samples &&
      std::ssize(split.validation) == planned.validation_samples) {
    if (planned.digest == 0 || planned.digest == dataset.digest()) return;
    throw ConfigError(fmt::format(
        "data set {} has another content than the plan was made for (digest {:016x}, planned {:016x}): "
        "copy that, or run clusterize again",
        settings.data, dataset.digest(), planned.digest));
  }
  throw ConfigError(
      fmt::format("data set {} has {} samples to train and {} to validate with, the plan was made for {} "
                  "and {}: run clusterize again",
                  settings.data, split.train.size(), split.validation.size(), planned.train_samples,
                  planned.validation_samples));
}

}  // namespace rookery
