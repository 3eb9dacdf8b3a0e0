// Puts the clusters of a plan in the order in which their rings are fastest.
#pragma once

#include <cstddef>
#include <vector>

#include "clusterize/costs/throughput_model.hpp"

namespace rookery {

// A bottleneck travelling salesman: the slowest way between neighbours counts. Exact up to
// kExactClusters for the shortest steps' cuts. Beyond, a cluster stands where its Root's region is, and the
// regions follow each other in the better of two orders: a short tour, in which each stands together, and a
// walk around a spanning tree of the fastest ways, which passes through a region again and again, each time
// by another of its clusters; of hundreds of regions only the tour is tried. Where all regions have as many
// clusters as the walk passes through them, no order is better. Refers to the model.
class RingOrder {
 public:
  static constexpr std::size_t kExactClusters = 8;

  explicit RingOrder(const ThroughputModel& model);
  // Puts clusters that all fit in order; they stay as they are where no other order is faster. Neighbours
  // whose nodes cannot connect are as slow as can be, by the shortest steps' cuts.
  void arrange(std::vector<PlacedCluster>& clusters) const;

 private:
  struct Way {
    double seconds;
    int from, to;  // regions
  };
  class Walk;

  // Beyond kExactClusters: those that cannot be neighbours change places with others, where that helps.
  void separate(std::vector<PlacedCluster>& clusters) const;
  void arrange_by_regions(std::vector<PlacedCluster>& clusters) const;
  void arrange_exactly(std::vector<PlacedCluster>& clusters) const;
  const std::vector<int>& tour(const std::vector<int>& regions, std::size_t clusters) const;
  const std::vector<Way>& ways(std::size_t clusters) const;  // the fastest first
  double way_seconds(int from, int to, std::size_t clusters) const;
  int region(const PlacedCluster& cluster) const;

  const ThroughputModel& model_;
  std::vector<int> region_of_;  // by node
  std::vector<int> best_node_;  // of each region: the one with the fastest connection
  // By about how many clusters there are; tours also by their regions.
  mutable Memo<std::vector<int>, std::vector<int>, ThroughputModel::Hash> tours_;
  mutable Memo<std::vector<int>, std::vector<Way>, ThroughputModel::Hash> ways_;
};

}  // namespace rookery
