#include "trainer/feed/batch_feed.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/feed/epoch_order.hpp"

namespace rookery {

BatchFeed::BatchFeed(const Dataset& dataset, const TrainingSettings& settings, const DataSizes& planned,
                     const Stage& root)
    : settings_(settings),
      split_(split_dataset(dataset, settings)),
      source_(with_context(fmt::format("data: {}", settings.data),
                           [&] { return SampleSource(dataset, root.graph, settings.loss); })) {
  check_planned(dataset, settings, planned);
  if (!dataset.is_at_hand())
    reader_.emplace(dataset, source_.tensors(), settings.reading, settings.batch_size);
}

BatchReader::Pass BatchFeed::epoch_pass(std::int64_t epoch, std::vector<SampleRange> batches) const {
  auto order =
      std::make_shared<const std::vector<std::int64_t>>(epoch_order(split_.train, settings_.seed, epoch));
  const TrainingPass pass{.seed = settings_.seed, .epoch = epoch, .order = *order};
  return {std::move(order), std::move(batches), pass};
}

BatchReader::Pass BatchFeed::validation_pass(std::vector<SampleRange> batches) const {
  return {std::make_shared<const std::vector<std::int64_t>>(split_.validation), std::move(batches),
          std::nullopt};
}

void BatchFeed::start_epoch(std::int64_t epoch, std::vector<SampleRange> batches) {
  BatchReader::Pass pass = epoch_pass(epoch, std::move(batches));
  order_ = pass.order;
  is_validation_ = false;
  if (reader_) reader_->start(std::move(pass));
}

void BatchFeed::start_validation(std::vector<SampleRange> batches) {
  BatchReader::Pass pass = validation_pass(std::move(batches));
  order_ = pass.order;
  is_validation_ = true;
  if (reader_) reader_->start(std::move(pass));
  source_.set_batch(*order_);
}

void BatchFeed::follow_with_epoch(std::int64_t epoch, std::vector<SampleRange> batches) {
  if (reader_) reader_->follow(epoch_pass(epoch, std::move(batches)));
}

void BatchFeed::follow_with_validation(std::vector<SampleRange> batches) {
  if (reader_) reader_->follow(validation_pass(std::move(batches)));
}

void BatchFeed::set_batch(SampleRange batch, SampleRange mean_over) {
  const auto samples = [&](SampleRange range) {
    return std::span<const std::int64_t>(*order_).subspan(range.first, static_cast<std::size_t>(range.count));
  };
  if (reader_) reader_->next(batch);
  batch_ = samples(batch);
  if (!is_validation_) source_.set_batch(samples(mean_over));
}

void BatchFeed::fill(const MicroBatch& micro_batch, const std::string& value, TensorView into) const {
  // All micro-batches but a batch's last have the size of its first.
  const std::int64_t first = micro_batch.index * micro_batch_sizes(settings_, std::ssize(batch_)).front();
  const auto ids = batch_.subspan(first, static_cast<std::size_t>(micro_batch.size));
  const auto tensor = source_.tensor_of(value);
  if (!reader_ || !tensor) {
    source_.fill(value, ids, into);
    return;
  }
  const std::span<const std::byte> read = reader_->samples(*tensor, {first, micro_batch.size});
  ROOKERY_CHECK(read.size() == into.bytes().size(), "{} bytes of '{}' into {}", read.size(), *tensor,
                into.bytes().size());
  std::memcpy(into.data, read.data(), read.size());
}

}  // namespace rookery
