// Divides samples into batches and micro-batches.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/settings/cluster_shares.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// Sizes that the data set gives to a run.
struct DataSizes {
  std::int64_t train_samples = 0;
  std::int64_t validation_samples = 0;
  std::int64_t bytes = 0;    // of the Root's memory
  std::uint64_t digest = 0;  // of the data set (dataset.hpp); 0: none
  bool operator==(const DataSizes&) const = default;
};

// ConfigError when the learning rate follows a validation that has no samples.
void check_validation(const TrainingSettings& settings, const DataSizes& data);

// Settings' micro_batches; BugError where clusterize has yet to choose them (undecided()), as from all below.
int decided_micro_batches(const TrainingSettings& settings);
// Of a full micro-batch.
std::int64_t micro_batch_size(std::int64_t batch_size, std::int64_t micro_batches);
// The sizes of the micro-batches of a batch of `samples`: micro_batch_size() of the settings until what is
// left is smaller.
std::vector<std::int64_t> micro_batch_sizes(const TrainingSettings& settings, std::int64_t samples);
// Every size that training (validation) will bring to a cluster: what a stage must be compiled for. The
// settings' batch_size is that of the cluster, its own share.
std::vector<std::int64_t> training_sizes(const TrainingSettings& settings, const DataSizes& data,
                                         const ClusterShares& shares);
std::vector<std::int64_t> validation_sizes(const TrainingSettings& settings, const DataSizes& data,
                                           const ClusterShares& shares);
// The number of batches in an epoch; all but the last have `batch_size` samples.
std::int64_t batches_per_epoch(std::int64_t batch_size, std::int64_t samples);

}  // namespace rookery
