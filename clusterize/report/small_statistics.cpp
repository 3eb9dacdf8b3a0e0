#include "clusterize/report/small_statistics.hpp"

#include <algorithm>

#include "models/base/libraries/format.hpp"
#include "models/graph/ops/batch_norm.hpp"

namespace rookery {
namespace {

// A cluster's largest micro-batch in a step, or one of a single sample.
struct TellingMicroBatch {
  int cluster = 0;
  std::int64_t samples = 0;
};

// In a step of so many samples: of the clusters that have any, the one whose is the smallest.
TellingMicroBatch smallest_in(std::int64_t step, const ClusterShares& shares, std::int64_t micro_batches) {
  TellingMicroBatch smallest{.samples = step + 1};
  const std::vector<SampleRange> parts = shares.parts_of(step);
  for (int cluster = 0; cluster < shares.clusters(); ++cluster) {
    const std::int64_t full = micro_batch_size(shares.samples[cluster], micro_batches);
    const std::int64_t telling = parts[cluster].count % full == 1 ? 1 : std::min(full, parts[cluster].count);
    if (telling > 0 && telling < smallest.samples) smallest = {cluster, telling};
  }
  return smallest;
}

bool is_small(std::int64_t step, const ClusterShares& shares, std::int64_t micro_batches) {
  return step > 0 && smallest_in(step, shares, micro_batches).samples < kLeastStatistics;
}

// The nearest batch_size to the settings', up to a half more or less, none of whose steps is small.
std::optional<std::int64_t> better_batch_size(const TrainingTask& task, const ClusterShares& shares,
                                              std::int64_t micro_batches) {
  const std::int64_t asked = task.settings.batch_size;
  const auto is_better = [&](std::int64_t size) {
    ClusterShares changed = shares;
    for (std::int64_t& samples : changed.samples) samples = std::max<std::int64_t>(1, samples * size / asked);
    const std::int64_t joint = changed.joint();
    return joint <= task.data.train_samples && !is_small(joint, changed, micro_batches) &&
           !is_small(task.data.train_samples % joint, changed, micro_batches);
  };
  for (std::int64_t apart = 1; apart <= asked / 2; ++apart) {
    for (const std::int64_t size : {asked + apart, asked - apart})
      if (is_better(size)) return size;
  }
  return std::nullopt;
}

std::string samples_text(std::int64_t samples) {
  return samples == 1 ? "1 sample" : fmt::format("{} samples", samples);
}

}  // namespace

std::optional<std::string> small_statistics(const TrainingTask& task, const ClusterPlan& plan) {
  if (!uses_batch_statistics(task.graph)) return std::nullopt;
  const ClusterShares shares = shares_of(plan, 0);
  const std::int64_t full = std::min(shares.joint(), task.data.train_samples);
  const std::int64_t last = task.data.train_samples % shares.joint();
  const bool is_full = is_small(full, shares, plan.micro_batches);
  if (!is_full && !is_small(last, shares, plan.micro_batches)) return std::nullopt;
  const std::int64_t step = is_full ? full : last;
  const TellingMicroBatch smallest = smallest_in(step, shares, plan.micro_batches);
  std::string text = fmt::format(
      "BatchNormalization takes its statistics over {} on cluster {} in {}, which has {}: with fewer than {} "
      "models train worse",
      samples_text(smallest.samples), smallest.cluster, is_full ? "a step" : "the last step of an epoch",
      samples_text(step), kLeastStatistics);
  if (is_full) return text + ": give a larger batch_size, fewer micro_batches, or fewer clusters";
  const auto better = better_batch_size(task, shares, plan.micro_batches);
  return text + (better ? fmt::format(": \"batch_size\": {} has no such step", *better)
                        : ": choose a batch_size that leaves more for it");
}

}  // namespace rookery
