#include "trainer/feed/sample_places.hpp"

#include <algorithm>
#include <utility>

#include "models/base/check.hpp"
#include "trainer/feed/epoch_order.hpp"
#include "trainer/settings/batch_sizes.hpp"

namespace rookery {

SamplePlaces::SamplePlaces(TrainingSettings settings, std::int64_t train_samples, ClusterShares shares)
    : settings_(std::move(settings)), train_samples_(train_samples), shares_(std::move(shares)) {
  settings_.batch_size = shares_.own();
}

std::span<const std::int64_t> SamplePlaces::of(std::int64_t step, int micro_batch) {
  const std::int64_t batches = batches_per_epoch(shares_.joint(), train_samples_);
  const std::int64_t trained = step - steps_ahead_;
  if (const std::int64_t epoch = trained / batches; epoch_ != epoch) {
    order_ = {};  // so that there are never two
    order_ = epoch_places(train_samples_, settings_.seed, epoch);
    epoch_ = epoch;
  }
  const SampleRange batch = shares_.own_batch(trained % batches, train_samples_);
  const std::int64_t size = micro_batch_size(settings_.batch_size, decided_micro_batches(settings_));
  const std::int64_t before = micro_batch * size;
  ROOKERY_CHECK(before < batch.count, "micro-batch {} of {} samples", micro_batch, batch.count);
  return std::span(order_).subspan(static_cast<std::size_t>(batch.first + before),
                                   static_cast<std::size_t>(std::min(size, batch.count - before)));
}

}  // namespace rookery
