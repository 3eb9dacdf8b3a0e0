#include "trainer/settings/cluster_shares.hpp"

#include <algorithm>
#include <numeric>

#include "models/base/check.hpp"

namespace rookery {

std::int64_t ClusterShares::joint() const {
  return std::accumulate(samples.begin(), samples.end(), std::int64_t{0});
}

std::vector<SampleRange> ClusterShares::parts_of(std::int64_t count) const {
  const std::int64_t whole = joint();
  std::vector<SampleRange> parts;
  std::vector<std::size_t> by_remainder(samples.size());
  std::iota(by_remainder.begin(), by_remainder.end(), std::size_t{0});
  for (const std::int64_t share : samples) parts.push_back({.count = count * share / whole});
  std::ranges::stable_sort(by_remainder, std::greater(),
                           [&](std::size_t i) { return count * samples[i] % whole; });
  std::int64_t left = count;
  for (const SampleRange& part : parts) left -= part.count;
  for (std::int64_t i = 0; i < left; ++i) ++parts[by_remainder[i]].count;
  std::int64_t first = 0;
  for (SampleRange& part : parts) {
    part.first = first;
    first += part.count;
  }
  return parts;
}

SampleRange ClusterShares::part_of(std::int64_t count) const {
  return parts_of(count)[cluster];
}

SampleRange ClusterShares::joint_batch(std::int64_t step, std::int64_t epoch_samples) const {
  const std::int64_t first = step * joint();
  return {first, std::min(joint(), epoch_samples - first)};
}

SampleRange ClusterShares::own_batch(std::int64_t step, std::int64_t epoch_samples) const {
  const SampleRange all = joint_batch(step, epoch_samples);
  const SampleRange part = part_of(all.count);
  return {all.first + part.first, part.count};
}

std::int64_t ClusterShares::trained_of(int of, std::int64_t count) const {
  const auto at = static_cast<std::size_t>(of);
  const std::int64_t rest = count % joint();
  return count / joint() * samples.at(at) + (rest == 0 ? 0 : parts_of(rest)[at].count);
}

bool ClusterShares::all_train_in(std::int64_t step, std::int64_t epoch_samples) const {
  const std::vector<SampleRange> parts = parts_of(joint_batch(step, epoch_samples).count);
  return std::ranges::all_of(parts, [](const SampleRange& part) { return part.count > 0; });
}

ClusterShares one_cluster(std::int64_t batch_size) {
  ROOKERY_CHECK(batch_size > 0, "batches of {} samples", batch_size);
  return {.cluster = 0, .samples = {batch_size}};
}

}  // namespace rookery
