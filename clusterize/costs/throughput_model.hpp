// Predicted times of a plan. Node i has a speed s_i and a link (latency λ, bandwidth β) to each
// other node; stage k of a cluster, per micro-batch:
//   T_k = work of the stage / s_k      forward twice where it recomputes; work: model_costs.hpp
//         + bytes in and out / t_k     where the pool has t_k (transfer_gbps): copying is work, too
//   X_k = λ + a_k / β                  transfer of its boundary, one direction
//   RTT = Σ T_k + Σ (X_k forward + X_k backward)
//   P   = max(max T_k, max a_k / β, NIC load, RTT / n_0 unless n_0 = M)
//   E   = what stages exchange when a step ends: 2 (λ + w / β) from user to user of a shared parameter,
//         λ from the first stage for the norm that gradients are clipped by
//   step = RTT + (M - 1) P + update + E    of one batch of M micro-batches, synchronous
//   step = M P + E    async; E has no λ, because nobody waits for what is under way, and
//   P   = max(max a_k / β, NIC load, (update_k / M + Σ T + Σ (X forward + X backward)) / (n_k - n_m + 1))
//         over all rows of stages k ≤ m, T and X of them alone. Between its forward of a micro-batch and that
//         of the n_k-th one after, stage k waits for some to turn at stage m, which has done n_m - 1 forwards
//         more when it does a backward
// n_k: micro-batches that stage k has in flight, as settings say or a plan chooses (step_parts.hpp). The
// search, before anything is chosen, takes n_k to be the most that may be chosen and n_m what is the least.
// Machines with several stages: step_parts.hpp.
// All members of a cluster connect to each other, whatever they send: the first to the last, for targets, and
// every two to know that the other is there. So one of them at most may be a node that cannot be reached,
// which opens the connections to all others. A round of averaging over C clusters: 2 (C - 1) messages of
// w_r / C along every ring r at once, rings on one node sharing its connection; a cluster's neighbours in all
// rings are the ones before and behind it. w_r is what travels, compressed and with all that is averaged; of
// F fragments each has w_r / F.
//   samples per second = C · batch / (longest step + averaging)
//   averaging          = what rounds take that steps wait for: averaging_costs.hpp
// In a ring only neighbours connect, and the Roots are a ring in any case; the averaging of two that cannot
// takes infinitely long.
#pragma once

#include <set>
#include <vector>

#include "clusterize/costs/model_costs.hpp"
#include "clusterize/costs/stage_partition.hpp"
#include "clusterize/pool/node_pool.hpp"
#include "models/base/memo.hpp"

namespace rookery {

struct StageTimes {
  double forward = 0;  // seconds per micro-batch
  double backward = 0;
  double send = 0;  // its activations to the next stage
  double update = 0;
};

// One cluster: machines in the order of their stages.
struct ClusterCost {
  double shortfall = 0;              // > 0 when no cut fits: how far away it is
  std::vector<StagePartition> cuts;  // those worth considering; their steps rise, their loads fall
  bool fits() const { return shortfall == 0; }
};

using Clusters = std::vector<std::vector<int>>;  // nodes by stage; clusters in the order of the rings

// A cluster of a plan, looked up once. Refers to the plan and to the model.
struct PlacedCluster {
  const std::vector<int>* members;
  const ClusterCost* cost;
};

struct Throughput {
  double samples_per_second = 0;
  double step_seconds = 0;                  // of the slowest cluster
  double averaging_seconds = 0;             // that a step waits for rounds, on the average
  double round_seconds = 0;                 // of a round, on the average
  std::vector<const StagePartition*> cuts;  // by cluster; they live as long as the model
};

// All members are functions of their arguments alone and may be called by several threads at once.
class ThroughputModel {
 public:
  struct Hash {
    std::size_t operator()(const std::vector<int>& nodes) const;
  };

  // Pool and costs outlive the model. `special` nodes are in classes of their own.
  ThroughputModel(const NodePool& pool, const ModelCosts& costs, const std::set<int>& special = {});

  int nodes() const { return static_cast<int>(pool_.nodes().size()); }
  const NodePool& pool() const { return pool_; }
  const ModelCosts& costs() const { return sums_.costs; }
  const PartitionSums& sums() const { return sums_; }
  double flops_per_second(int node) const;
  double transfer_seconds_per_byte(int node) const;  // of its arithmetic's time
  double ram_bytes(int node) const;
  // The whole model on one machine, activations recomputed where that is allowed.
  double least_bytes() const { return least_bytes_; }
  // Nodes of one class can change places without any effect (node_equivalence.hpp); it is called by its first
  // node.
  int node_class(int node) const { return node_classes_[node]; }
  // Are there as many segments, and can every two of them connect? No order of them is a cluster otherwise.
  bool may_be_cluster(const std::vector<int>& members) const;
  // Can it connect with all of them?
  bool can_join(const std::vector<int>& members, int node) const;
  // Most nodes that a cluster can have.
  int largest_cluster() const;
  // Nodes that cannot be reached, rising, if there are several: one can be anywhere.
  const std::vector<int>& apart() const { return apart_; }
  CutMachine machine(int node, std::size_t stages) const;
  CutWay way(int from, int to) const;

  // Remembered; the reference stays valid.
  const ClusterCost& cluster(const std::vector<int>& members) const;
  // The cut with these first segments, remembered; null where a stage does not fit.
  const StagePartition* cut(const std::vector<int>& members, const std::vector<int>& begins) const;
  // Seconds that the end of a step adds: shared parameters' gradients and values, and the norm of all
  // gradients.
  double exchange_seconds(const std::vector<int>& members, const std::vector<int>& begins) const;
  std::vector<StageTimes> stage_times(const std::vector<int>& members, const StagePartition& cut) const;
  std::vector<PlacedCluster> placed(const Clusters& clusters) const;
  // The throughput of clusters that all fit. Each is cut so that it is no slower than the slowest has to be
  // and puts as little as possible on one connection, and so that neighbours in the rings can connect, where
  // a way to do that was found; where none was, the averaging takes infinitely long.
  Throughput throughput(const std::vector<PlacedCluster>& clusters) const;
  Throughput throughput(const Clusters& clusters) const { return throughput(placed(clusters)); }
  Throughput throughput(const Clusters& clusters, std::vector<const StagePartition*> cuts) const {
    Rival none;
    return throughput(placed(clusters), std::move(cuts), none);
  }
  // By cluster and its neighbour: seconds of a message of the slowest ring, with each cluster's first cut.
  std::vector<std::vector<double>> ring_ways(const std::vector<PlacedCluster>& clusters) const;
  // Can, of neighbours in the rings, every two nodes that average a parameter or a buffer connect, and both
  // Roots?
  bool rings_connect(const PlacedCluster& a, const StagePartition& cut_of_a, const PlacedCluster& b,
                     const StagePartition& cut_of_b) const;
  // The number of clusters that, with these cuts, are not so connected.
  int unconnected(const std::vector<PlacedCluster>& clusters,
                  const std::vector<const StagePartition*>& cuts) const;
  // Samples per second that the arithmetic of all nodes would allow.
  double bound_samples_per_second() const;

 private:
  std::vector<int> node_classes(const std::vector<int>& members) const;
  ClusterCost evaluate(const std::vector<int>& members, const std::vector<int>& begins = {}) const;
  // Other cuts of the same clusters.
  struct Rival {
    double seconds = kInfinite;  // of a step with its averaging, the shortest
    std::size_t slowest = 0;     // the cluster whose message was the slowest of a round
  };
  // Exact where it is better than the rival's; no better otherwise.
  Throughput throughput(const std::vector<PlacedCluster>& clusters, std::vector<const StagePartition*> cuts,
                        Rival& rival) const;
  // A round of one of so many fragments; of one that takes `enough`, no less than that. Looks at the cluster
  // `slowest` first, and leaves there whose message is the slowest.
  double round_seconds(const std::vector<PlacedCluster>& clusters,
                       const std::vector<const StagePartition*>& cuts, int fragments, double enough,
                       std::size_t& slowest) const;
  std::vector<double> ring_bytes(const std::vector<const StagePartition*>& cuts, int fragments) const;
  std::vector<const StagePartition*> cuts_within(const std::vector<PlacedCluster>& clusters,
                                                 double limit) const;
  void connect_with_next(const std::vector<PlacedCluster>& clusters, double limit, std::size_t at,
                         std::vector<const StagePartition*>& cuts) const;
  StageRange unreachable_part(const PlacedCluster& cluster, const StagePartition& cut) const;
  double message_seconds(const PlacedCluster& from, const StagePartition& from_cut, const PlacedCluster& to,
                         const StagePartition& to_cut, const std::vector<double>& bytes) const;
  int unreachable(const std::vector<int>& members) const;
  double shortfall(const std::vector<int>& members) const;

  const NodePool& pool_;
  PartitionSums sums_;
  std::vector<int> node_classes_;
  std::vector<int> apart_;
  double whole_bytes_ = 0;   // the whole model on one machine, one micro-batch in flight
  double shared_bytes_ = 0;  // most that a link's buffers take for shared parameters
  double least_bytes_ = 0;
  // By the classes of the members; then by them and the first segments.
  mutable Memo<std::vector<int>, ClusterCost, Hash> known_;
  mutable Memo<std::vector<int>, ClusterCost, Hash> known_cuts_;
};

}  // namespace rookery
