// The objective of "Decentralized Training of Foundation Models in Heterogeneous Environments" (Yuan et
// al., arXiv 2206.01288), for the genetic search of clusterize: equal nodes in G data-parallel groups of
// one size, which form a pipeline. With latency λ in s and bandwidth β in Gbit/s between nodes i and j,
// g = 0.65 GB of gradients and a = 506·10^6 bytes of activations in GiB:
//   cost = DP + 2·PP
//   DP   = max over groups D of max over i in D of Σ over j in D, j ≠ i, of 2·(λ_ij + 8·g / (|D|·β_ij))
//   PP   = the shortest open path through all groups, where the way between two groups costs the smallest
//          maximum, over perfect matchings of their members, of λ_ij + 8·a / β_ij
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "clusterize/genetic/objective.hpp"
#include "clusterize/pool/node_pool.hpp"
#include "models/base/memo.hpp"

namespace rookery {

class DtfmObjective : public GroupingObjective {
 public:
  static constexpr double kGradients = 0.65;
  static constexpr double kActivations = 506e6 / (1 << 30);
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr std::size_t kMostNodes = 64;
  static constexpr std::size_t kMostGroups = 8;

  // At most kMostNodes nodes in at most kMostGroups groups of at most 8.
  explicit DtfmObjective(const NodePool& pool);

  // Seconds; ties are broken by the sums of which the cost takes maxima and the shortest path.
  Score score(const Grouping& grouping) const override;
  bool fixed_sizes() const override { return true; }

  static double cost(double exchange, double path) { return exchange + 2 * path; }
  double exchange_seconds(const std::vector<int>& group) const;  // DP of one group
  // Between two groups that share no node.
  double way_seconds(const std::vector<int>& a, const std::vector<int>& b) const;

 private:
  using Mask = std::uint64_t;  // of nodes
  struct PairHash {
    std::size_t operator()(const std::pair<Mask, Mask>& pair) const {
      const Mask mixed = (pair.first ^ (pair.second * 0x9E3779B97F4A7C15ULL)) * 0xD6E8FEB86659FD93ULL;
      return mixed ^ (mixed >> 32U);
    }
  };

  std::size_t nodes_;
  // Node by node, in seconds; 0 from a node to itself.
  std::vector<double> latency_;
  std::vector<double> transfer_;         // of all gradients
  std::vector<std::uint16_t> way_rank_;  // of λ + 8·a / β, in way_values_
  std::vector<double> way_values_;       // rising
  mutable Memo<std::pair<Mask, Mask>, double, PairHash> ways_;
};

}  // namespace rookery
