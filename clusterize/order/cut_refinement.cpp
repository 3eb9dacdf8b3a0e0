#include "clusterize/order/cut_refinement.hpp"

#include <algorithm>

namespace rookery {
namespace {

constexpr std::size_t kMostBoundaries = 64;        // that are moved alone
constexpr std::size_t kMostBoundariesOfPairs = 8;  // that are moved two at a time

class Refiner {
 public:
  Refiner(const ThroughputModel& model, const Clusters& clusters)
      : model_(model), clusters_(clusters), best_(model.throughput(clusters)) {
    for (std::size_t c = 0; c < clusters.size(); ++c) {
      for (std::size_t stage = 1; stage < clusters[c].size(); ++stage) boundaries_.push_back({c, stage});
    }
  }

  Throughput run() {
    if (clusters_.size() < 2 || boundaries_.size() > kMostBoundaries) return best_;
    const bool pairs = boundaries_.size() <= kMostBoundariesOfPairs;
    while (improve({best_.cuts, 0, pairs ? 2 : 1})) {
    }
    return best_;
  }

 private:
  struct Boundary {
    std::size_t cluster, stage;
  };
  struct Trial {
    std::vector<const StagePartition*> cuts;
    std::size_t first;  // boundary that may be moved
    int moves;          // how many more
  };

  // Takes what is better than the best so far.
  bool improve(const Trial& trial) {
    bool better = false;
    for (std::size_t i = trial.first; i < boundaries_.size(); ++i) {
      const auto [cluster, stage] = boundaries_[i];
      const StagePartition& cut = *trial.cuts[cluster];
      const int end = stage + 1 < cut.begins.size() ? cut.begins[stage + 1] : model_.costs().count();
      for (int begin = cut.begins[stage - 1] + 1; begin < end; ++begin) {
        if (begin == cut.begins[stage]) continue;
        std::vector<int> begins = cut.begins;
        begins[stage] = begin;
        const StagePartition* moved = model_.cut(clusters_[cluster], begins);
        if (moved == nullptr || moved->empty_stages > cut.empty_stages) continue;
        Trial next{trial.cuts, i + 1, trial.moves - 1};
        next.cuts[cluster] = moved;
        better = judge(next.cuts) || better;
        if (next.moves > 0) better = improve(next) || better;
      }
    }
    return better;
  }

  bool judge(const std::vector<const StagePartition*>& cuts) {
    Throughput found = model_.throughput(clusters_, cuts);
    if (found.samples_per_second <= best_.samples_per_second * (1 + 1e-12)) return false;
    best_ = std::move(found);
    return true;
  }

  const ThroughputModel& model_;  // both of the caller
  const Clusters& clusters_;
  Throughput best_;
  std::vector<Boundary> boundaries_;
};

}  // namespace

Throughput refined_throughput(const ThroughputModel& model, const Clusters& clusters) {
  return Refiner(model, clusters).run();
}

}  // namespace rookery
