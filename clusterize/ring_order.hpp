// The order of clusters in which their rings are fastest.
#pragma once

#include <map>
#include <string>

#include "clusterize/cost_model.hpp"

namespace rookery {

// A bottleneck travelling salesman: the slowest way between neighbours counts. Exact up to
// kExactClusters for the shortest steps' cuts; beyond, clusters whose Roots are in one region stand together,
// and the regions in an order that was found once. Refers to the model.
class RingOrder {
 public:
  static constexpr std::size_t kExactClusters = 8;

  explicit RingOrder(const CostModel& model);
  // Clusters that all fit. As they are where no other order is faster.
  Clusters ordered(const Clusters& clusters) const;

 private:
  Clusters exact(const Clusters& clusters) const;

  const CostModel& model_;
  std::vector<int> places_;  // by node: of its region
};

}  // namespace rookery
