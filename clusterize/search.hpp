// The seeded genetic search for clusters.
//   similar     every cluster has at least min_nodes members; then as many clusters as possible;
//               then as few nodes left out, and RAM and bandwidth as equal between clusters, as
//               possible; then the shortest step
//   throughput  the most samples per second
// That every stage fits its machine's memory comes before everything. Nodes that could change places
// without any effect end up in rising order of their ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "clusterize/cost_model.hpp"
#include "clusterize/grouping.hpp"

namespace rookery {

enum class Objective : std::uint8_t { kSimilar, kThroughput };
const char* name_of(Objective objective);

struct SearchOptions {
  Objective objective = Objective::kSimilar;
  int min_nodes = 3;
  std::uint64_t seed = 42;
};

// What suits the pool: throughput where it gives speeds, if no objective is given; similar clusters of at
// least three.
SearchOptions usual_search(const NodePool& pool, std::uint64_t seed, std::optional<Objective> objective = {});

// A function of its arguments alone. ConfigError with numbers, and what would help, when no
// grouping fits the memory.
Grouping find_clusters(CostModel& model, const SearchOptions& options);

}  // namespace rookery
