// Predicted times of a plan. Node i has a speed s_i and a link (latency λ, bandwidth β) to each
// other node; stage k of a cluster, per micro-batch:
//   T_k = arithmetic of the stage / s_k + kSecondsPerOp per op
//   X_k = λ + a_k / β                  transfer of its boundary, one direction
//   RTT = Σ T_k + Σ (X_k forward + X_k backward)
//   P   = max(max T_k, max a_k / β, NIC load, RTT / micro-batches in flight)
//   E   = what stages exchange when a step ends: 2 (λ + w / β) from user to user of a shared parameter,
//         λ from the first stage for the norm that gradients are clipped by
//   step = RTT + (M - 1) P + update + E    of one batch of M micro-batches, synchronous
// Averaging over C clusters: 2 (C - 1) messages of w_r / C along every ring r at once, rings on one
// node sharing its connection.
#pragma once

#include <map>
#include <vector>

#include "clusterize/inner_cut.hpp"
#include "clusterize/model_costs.hpp"
#include "clusterize/plan/node_pool.hpp"

namespace rookery {

// Of a node that does not give its gflops.
constexpr double kAssumedGflops = 20;

struct StageTimes {
  double forward = 0;  // seconds per micro-batch
  double backward = 0;
  double send = 0;  // its activations to the next stage
};

// One cluster: machines in the order of their stages.
struct ClusterCost {
  bool fits = false;     // the rest says something only then
  double shortfall = 0;  // > 0 when it does not fit: how far away it is
  InnerCut cut;
  std::vector<StageTimes> stages;
  double step_seconds = 0;
};

class CostModel {
 public:
  // Pool and costs outlive the model.
  CostModel(const NodePool& pool, const ModelCosts& costs);

  int nodes() const { return static_cast<int>(pool_.nodes().size()); }
  const NodePool& pool() const { return pool_; }
  const ModelCosts& costs() const { return costs_; }
  const LinkSpeed& link(int a, int b) const;
  double flops_per_second(int node) const;

  // Members are indices of the pool's nodes. Remembered; the reference stays valid.
  const ClusterCost& cluster(const std::vector<int>& members);
  // One exchange of all parameters between clusters that all fit.
  double averaging_seconds(const std::vector<std::vector<int>>& clusters);
  double samples_per_second(const std::vector<std::vector<int>>& clusters);
  // What the arithmetic of all nodes would allow.
  double bound_samples_per_second() const;
  // Can nodes a and b change places without any effect?
  bool interchangeable(int a, int b) const;

 private:
  ClusterCost evaluate(const std::vector<int>& members) const;
  CutMachine machine(const std::vector<int>& members, std::size_t stage) const;
  double shortfall(const std::vector<int>& members) const;
  void add_times(const std::vector<int>& members, ClusterCost& cost) const;
  double exchange_seconds(const std::vector<int>& members, const std::vector<int>& begins) const;

  const NodePool& pool_;
  const ModelCosts& costs_;
  std::vector<LinkSpeed> links_;  // row by row
  double whole_bytes_ = 0;        // the whole model on one machine, one micro-batch in flight
  double shared_bytes_ = 0;       // most that a link's buffers take for shared parameters
  std::map<std::vector<int>, ClusterCost> known_;
};

}  // namespace rookery
