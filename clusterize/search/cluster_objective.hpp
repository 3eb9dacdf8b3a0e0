// An objective says what makes a plan's clusters good.
//   similar     every cluster has at least min_nodes members; then as many clusters as possible;
//               then as few nodes left out, and RAM and bandwidth as equal between clusters, as
//               possible; then the shortest step
//   throughput  the most samples per second
//   latency     one cluster, with the shortest step
// That every stage fits its machine's memory, and constraints, come before everything.
#pragma once

#include <map>
#include <optional>

#include "clusterize/costs/throughput_model.hpp"
#include "clusterize/genetic/objective.hpp"
#include "clusterize/order/node_order.hpp"
#include "clusterize/order/ring_order.hpp"

namespace rookery {

enum class Objective : std::uint8_t { kSimilar, kThroughput, kLatency };
const char* name_of(Objective objective);

// Where a node has to be.
struct Pin {
  int cluster = 0;
  int stage = 0;
};

struct Constraints {
  int min_nodes = 1;            // of each cluster; no more than the largest cluster can have
  std::optional<int> clusters;  // exactly so many
  std::map<int, Pin> pins;      // by node
};

class ClusterObjective : public GroupingObjective {
 public:
  // The model outlives the objective.
  ClusterObjective(const ThroughputModel& model, Objective objective, Constraints constraints);

  // score[0] is 0 where memory and constraints are respected.
  Score score(const Grouping& grouping) const override;
  void arrange(std::vector<int>& cluster) const override;
  // In the order of the rings, with pinned nodes in the clusters of their numbers. Of clusters that fit.
  Clusters ordered(const Clusters& clusters) const;

  const Constraints& constraints() const { return constraints_; }

 private:
  void order(std::vector<PlacedCluster>& clusters) const;
  double violations(const Grouping& grouping, const std::vector<PlacedCluster>& clusters) const;
  double misplaced(const Grouping& grouping) const;
  double imbalance(const Grouping& grouping) const;

  const ThroughputModel& model_;
  Objective objective_;
  Constraints constraints_;
  RingOrder rings_;
  std::map<int, int> stages_;  // of pinned nodes
  mutable Memo<std::vector<int>, std::vector<int>, ThroughputModel::Hash>
      orders_;  // by sorted classes of nodes: places in them
};

}  // namespace rookery
