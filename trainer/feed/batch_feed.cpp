#include "trainer/feed/batch_feed.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/error.hpp"
#include "trainer/feed/epoch_order.hpp"

namespace rookery {

BatchFeed::BatchFeed(const Dataset& dataset, const TrainingSettings& settings, const DataSizes& planned,
                     const Stage& root)
    : settings_(settings),
      split_(split_dataset(dataset.size(), settings)),
      source_(with_context(fmt::format("data: {}", settings.data),
                           [&] { return SampleSource(dataset, root.graph, settings.loss); })) {
  check_planned_samples(split_, settings, planned);
}

void BatchFeed::start_epoch(std::int64_t epoch) {
  order_ = epoch_order(split_.train, settings_.seed, epoch);
  is_validation_ = false;
}

void BatchFeed::start_validation() {
  order_ = split_.validation;
  is_validation_ = true;
  source_.set_batch(order_);
}

void BatchFeed::set_batch(SampleRange batch, SampleRange mean_over) {
  const auto samples = [&](SampleRange range) {
    return std::span<const std::int64_t>(order_).subspan(range.first, static_cast<std::size_t>(range.count));
  };
  batch_ = samples(batch);
  if (!is_validation_) source_.set_batch(samples(mean_over));
}

void BatchFeed::fill(const MicroBatch& micro_batch, const std::string& value, TensorView into) const {
  // All micro-batches but a batch's last have the size of its first.
  const std::int64_t first = micro_batch.index * micro_batch_sizes(settings_, std::ssize(batch_)).front();
  const auto ids = batch_.subspan(first, static_cast<std::size_t>(micro_batch.size));
  source_.fill(value, ids, into);
}

}  // namespace rookery
