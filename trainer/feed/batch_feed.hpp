// Feeds the pipeline on the Root: the samples of the batch in hand, micro-batch by micro-batch. Where the
// data set's samples are not at hand, batches are read ahead.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/graph/stage.hpp"
#include "models/runtime/executable.hpp"
#include "trainer/data/dataset.hpp"
#include "trainer/feed/batch_reader.hpp"
#include "trainer/feed/sample_source.hpp"
#include "trainer/feed/split.hpp"
#include "trainer/settings/batch_sizes.hpp"
#include "trainer/settings/cluster_shares.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// One thread; the data set outlives the feed.
class BatchFeed {
 public:
  // ConfigError when the data set's samples are not what `root` takes, or not as many as planned.
  BatchFeed(const Dataset& dataset, const TrainingSettings& settings, const DataSizes& planned,
            const Stage& root);

  // Begins epoch `epoch`, in its order, or the validation samples, which for their losses are one batch.
  // `batches`: all that set_batch() will be given, in that order.
  void start_epoch(std::int64_t epoch, std::vector<SampleRange> batches);
  void start_validation(std::vector<SampleRange> batches);
  // What will be begun next, so that it can be read ahead; with the same batches.
  void follow_with_epoch(std::int64_t epoch, std::vector<SampleRange> batches);
  void follow_with_validation(std::vector<SampleRange> batches);
  // The batch at hand: waits until it is read. Losses take their mean over `mean_over`, which has the batch
  // in it.
  void set_batch(SampleRange batch, SampleRange mean_over);

  // How long set_batch() has waited for readers.
  double seconds_waited() const { return reader_ ? reader_->seconds_waited() : 0; }

  // FillInput: copies the value of the micro-batch's samples.
  void fill(const MicroBatch& micro_batch, const std::string& value, TensorView into) const;

 private:
  BatchReader::Pass epoch_pass(std::int64_t epoch, std::vector<SampleRange> batches) const;
  BatchReader::Pass validation_pass(std::vector<SampleRange> batches) const;

  TrainingSettings settings_;
  Split split_;
  SampleSource source_;
  bool is_validation_ = false;
  std::shared_ptr<const std::vector<std::int64_t>> order_;
  std::span<const std::int64_t> batch_;
  std::optional<BatchReader> reader_;
};

}  // namespace rookery
