// Feeds the pipeline on the Root: the samples of the batch in hand, micro-batch by micro-batch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/graph/stage.hpp"
#include "models/runtime/executable.hpp"
#include "trainer/data/dataset.hpp"
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

  // Goes to the beginning of epoch `epoch`, in its order, or of the validation samples, which for their
  // losses are one batch.
  void start_epoch(std::int64_t epoch);
  void start_validation();
  // The batch at hand. Losses take their mean over `mean_over`, which has the batch in it.
  void set_batch(SampleRange batch, SampleRange mean_over);

  // FillInput: copies the value of the micro-batch's samples.
  void fill(const MicroBatch& micro_batch, const std::string& value, TensorView into) const;

 private:
  TrainingSettings settings_;
  Split split_;
  SampleSource source_;
  bool is_validation_ = false;
  std::vector<std::int64_t> order_;
  std::span<const std::int64_t> batch_;
};

}  // namespace rookery
