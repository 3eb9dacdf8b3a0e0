// The genetic search: a population of groupings, each child varied and then improved by steps that may
// also go sideways, and at the end a descent through whole neighbourhoods.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "clusterize/genetic/objective.hpp"
#include "clusterize/genetic/time_limit.hpp"

namespace rookery {

struct GeneticOptions {
  std::uint64_t seed = 42;
  int threads = 0;                     // 0: one per processor
  std::int64_t evaluations = 100'000;  // of groupings, about
  int patience = 30;                   // generations without a better best
  TimeLimit limit{std::nullopt};       // ends sooner; the answer then depends on the machine
  std::function<void(const Score& best, double share)> progress;  // share of the evaluations done
};

// Share of the evaluations and the time after which only the descents are left.
constexpr double kBreedingEnds = 0.8;

struct Individual {
  Grouping grouping;
  Score score{};
};

// The best grouping found, never worse than any of `seeds`, of which there is one at least. The same for
// any number of threads.
Individual genetic_search(const GroupingObjective& objective, const std::vector<Grouping>& seeds,
                          const GeneticOptions& options);

}  // namespace rookery
