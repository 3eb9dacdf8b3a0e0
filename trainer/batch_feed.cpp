#include "trainer/batch_feed.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/base/error.hpp"
#include "models/graph/loss.hpp"

namespace rookery {
namespace {

// The one input of the model that takes the samples.
const Value& sample_input(const Stage& root) {
  std::vector<std::string> names;
  for (const StageInput& input : root.inputs) {
    if (input.value != kLabels && input.value != kSampleIds) names.push_back(input.value);
  }
  if (names.size() != 1) {
    throw ConfigError(fmt::format("the model takes {} inputs ({}); a data set fills exactly one",
                                  names.size(), fmt::join(names, ", ")));
  }
  return root.graph.value(root.graph.at(names.front()));
}

}  // namespace

BatchFeed::BatchFeed(const Dataset& dataset, const TrainingSettings& settings, const DataSizes& planned,
                     const Stage& root)
    : dataset_(dataset), settings_(settings), split_(split_dataset(dataset.size(), settings)) {
  const DataSizes found{std::ssize(split_.train), std::ssize(split_.validation), planned.bytes};
  if (found != planned) {
    throw ConfigError(
        fmt::format("data: '{}' gives {} samples to train and {} to validate, the plan was made for {} and "
                    "{}: run clusterize again",
                    settings.data, found.train_samples, found.validation_samples, planned.train_samples,
                    planned.validation_samples));
  }
  const Value& input = sample_input(root);
  const Shape sample = input.type.shape.with_batch(1);
  if (sample.elements() != dataset.sample_elements()) {
    throw ConfigError(fmt::format("data: a sample of '{}' has {} values, the model's input '{}' takes {} {}",
                                  settings.data, dataset.sample_elements(), input.name, sample.elements(),
                                  input.type.shape.to_string()));
  }
}

void BatchFeed::start_epoch(std::int64_t epoch) {
  order_ = epoch_order(split_.train, settings_.seed, epoch);
}

void BatchFeed::start_validation() {
  order_ = split_.validation;
}

void BatchFeed::set_batch(std::int64_t first, std::int64_t samples) {
  batch_ = std::span(order_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(samples));
}

void BatchFeed::fill(const MicroBatch& micro_batch, const std::string& value, TensorView into) const {
  // All micro-batches but a batch's last have the size of its first.
  const std::int64_t first = micro_batch.index * micro_batch_sizes(settings_, std::ssize(batch_)).front();
  const auto ids =
      batch_.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(micro_batch.size));
  if (value == kSampleIds) {
    std::ranges::copy(ids, into.as<std::int64_t>().begin());
  } else if (value == kLabels) {
    dataset_.gather(ids, {}, into.as<std::int64_t>());
  } else {
    dataset_.gather(ids, into.as<float>(), {});
  }
}

}  // namespace rookery
