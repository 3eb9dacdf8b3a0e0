#include "trainer/data/dataset.hpp"

#include <fmt/format.h>

#include <cmath>

#include "models/base/error.hpp"
#include "models/base/rng.hpp"
#include "trainer/data/formats.hpp"
#include "trainer/data/generated.hpp"

namespace rookery {
namespace {

constexpr float kDigitsScale = 16;

}  // namespace

std::unique_ptr<Dataset> open_dataset(const std::string& name, const std::filesystem::path& node_data) {
  NamedOptions options(name);
  const std::string& what = options.name();
  if (what == "sorter") return make_sorter(options);
  if (what == "masked_words") return make_masked_words(options);
  if (what == "shapes") return make_shapes(options);

  const auto scale =
      static_cast<float>(what.starts_with("csv:") ? options.number("scale", 1, 1e-30, 1e30) : 1);
  options.expect_none_left();
  if (what == "digits") return read_csv(node_data / "datasets" / "digits.csv.gz", kDigitsScale);
  if (what.starts_with("csv:")) return read_csv(node_data / what.substr(4), scale);
  if (what.starts_with("idx:")) return read_idx(node_data / what.substr(4));
  if (what.starts_with("tensors:")) return read_tensors(node_data / what.substr(8));
  if (what.starts_with("own:")) {
    throw ConfigError(
        fmt::format("data: '{}' is made by a program of one's own, which is the Root in place of "
                    "provider (docs/library.md)",
                    name));
  }
  throw ConfigError(
      fmt::format("data: '{}' is not \"digits\", \"sorter\", \"masked_words\", \"shapes\", \"csv:FILE\", "
                  "\"idx:FOLDER\" or \"tensors:FILE\"",
                  name));
}

Split split_dataset(std::int64_t samples, const TrainingSettings& settings) {
  // 0.29 * 100 is a little less than 29; what is meant is 29.
  constexpr double kRounding = 1e-9;
  const auto train = static_cast<std::int64_t>(
      std::floor(settings.train_fraction * static_cast<double>(samples) * (1 + kRounding)));
  if (train < 1) {
    throw ConfigError(fmt::format("train_fraction: {} of {} samples leaves none to train on",
                                  settings.train_fraction, samples));
  }
  std::vector<std::int64_t> ids(static_cast<std::size_t>(samples));
  if (settings.split == "in_order") {
    for (std::int64_t i = 0; i < samples; ++i) ids[static_cast<std::size_t>(i)] = i;
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

std::vector<std::int64_t> epoch_order(std::span<const std::int64_t> train_ids, std::uint64_t seed,
                                      std::int64_t epoch) {
  std::vector<std::int64_t> order =
      random_permutation(static_cast<std::int64_t>(train_ids.size()), rng_key(seed, "epoch_order"),
                         static_cast<std::uint64_t>(epoch));
  for (std::int64_t& position : order) position = train_ids[static_cast<std::size_t>(position)];
  return order;
}

}  // namespace rookery
