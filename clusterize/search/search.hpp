// Finds the clusters of a plan: the seeded genetic search over what the pool's structure suggests, then
// one way to write the answer down.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "clusterize/search/cluster_objective.hpp"

namespace rookery {

struct SearchOptions {
  Objective objective = Objective::kSimilar;
  int min_nodes = 3;
  std::uint64_t seed = 42;
  std::optional<int> clusters = std::nullopt;
  std::map<int, Pin> pins = {};                  // by index of a node in the pool
  int threads = 0;                               // 0: one per processor
  std::optional<double> seconds = std::nullopt;  // of the search; without, the answer is the same everywhere
  bool explains = true;  // where there is no plan, why: that takes searches of its own
  // Called now and then: the best so far as text, and the share of the search that is done.
  std::function<void(const std::string& best, double share)> progress = {};
};

// The options that suit the pool: throughput where it gives speeds, if no objective is given; similar
// clusters of at least three.
SearchOptions usual_search(const NodePool& pool, std::uint64_t seed, std::optional<Objective> objective = {});

// The number of groupings that a search of such a pool looks at.
std::int64_t usual_evaluations(int nodes);

// Nothing where no grouping was found that fits the memory and the constraints.
std::optional<Grouping> search_clusters(const ThroughputModel& model, const SearchOptions& options,
                                        std::int64_t evaluations);

}  // namespace rookery
