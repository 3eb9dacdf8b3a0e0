// Divides the samples of every step between the clusters of a plan, by shares that the planner has computed
// (clusterize/planner/planner.cpp).
//
// All clusters make the same steps. Each step takes the next samples of the epoch's order, its joint batch,
// in which every cluster has a part of its own: consecutive samples, in the order of the clusters. So no
// sample comes twice, none is left out, and what a cluster trains follows from seed, epoch and shares alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rookery {

// Consecutive samples of a batch or an epoch.
struct SampleRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const SampleRange&) const = default;
};

// A cluster of a plan, and the samples of a full step by cluster, each at least 1.
struct ClusterShares {
  int cluster = 0;
  std::vector<std::int64_t> samples;

  int clusters() const { return static_cast<int>(samples.size()); }
  std::int64_t own() const { return samples[cluster]; }
  // The samples of a full step, of all clusters.
  std::int64_t joint() const;
  // Every cluster's part of `count` samples: in proportion to the shares, rounded so that the largest
  // remainders go up, of equal ones the first; 0 where there are too few.
  std::vector<SampleRange> parts_of(std::int64_t count) const;
  // This cluster's.
  SampleRange part_of(std::int64_t count) const;
  // Step number `step` of an epoch of so many samples, of all clusters, and this one's part of it: places in
  // the epoch's order.
  SampleRange joint_batch(std::int64_t step, std::int64_t epoch_samples) const;
  SampleRange own_batch(std::int64_t step, std::int64_t epoch_samples) const;
  // The samples that cluster `of` trains of the first `count` samples of an epoch, a whole number of steps.
  std::int64_t trained_of(int of, std::int64_t count) const;
  // Whether each cluster has samples of step number `step` of an epoch of so many samples.
  bool all_train_in(std::int64_t step, std::int64_t epoch_samples) const;

  bool operator==(const ClusterShares&) const = default;
};

// A plan of one cluster.
ClusterShares one_cluster(std::int64_t batch_size);

}  // namespace rookery
