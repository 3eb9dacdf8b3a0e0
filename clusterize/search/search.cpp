#include "clusterize/search/search.hpp"

#include <algorithm>

#include "clusterize/genetic/genetic_search.hpp"
#include "clusterize/search/canonical.hpp"
#include "clusterize/search/cluster_packing.hpp"
#include "clusterize/search/seeds.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kEvaluations = 100'000;
constexpr int kManyNodes = 300;  // beyond, each evaluation takes longer and there are fewer
constexpr int kPatience = 40;
constexpr int kFewNodes = 8;  // up to which the best is found soon

// Orders of stages with more effort than the search can spend on each cluster.
Grouping polished(const ThroughputModel& model, const ClusterObjective& objective, const Grouping& grouping) {
  std::map<int, int> stages;
  for (const auto& [node, pin] : objective.constraints().pins) stages[node] = pin.stage;
  Grouping best = grouping;
  for (std::vector<int>& members : best.clusters) {
    if (members.size() < 2) continue;
    const OrderEffort effort{.exact_nodes = 12, .pushes = 20'000, .evaluations = 400};
    const Score before = objective.score(best);
    std::vector<int> order = best_order(model, members, stages, effort);
    std::swap(members, order);
    if (before < objective.score(best)) std::swap(members, order);
  }
  return best;
}

std::string text_of(const Score& score, Objective objective) {
  if (score[0] > 0) return "no plan fits yet";
  switch (objective) {
    case Objective::kSimilar:
      return fmt::format("{:.0f} cluster{}, imbalance {:.3g}", -score[1], score[1] == -1 ? "" : "s",
                         score[3]);
    case Objective::kThroughput:
      return rate_text(-score[1]) + " samples/s";
    case Objective::kLatency:
      return duration_text(score[1]) + " a step";
  }
  return {};
}

}  // namespace

SearchOptions usual_search(const NodePool& pool, std::uint64_t seed, std::optional<Objective> objective) {
  SearchOptions options{.objective = pool.has_speeds() ? Objective::kThroughput : Objective::kSimilar,
                        .seed = seed};
  if (objective) options.objective = *objective;
  if (options.objective != Objective::kSimilar) options.min_nodes = 1;
  return options;
}

std::int64_t usual_evaluations(int nodes) {
  return kEvaluations * kManyNodes / std::max(kManyNodes, nodes);
}

std::optional<Grouping> search_clusters(const ThroughputModel& model, const SearchOptions& options,
                                        std::int64_t evaluations) {
  const TimeLimit limit(options.seconds);
  const ClusterObjective objective(
      model, options.objective,
      {.min_nodes = options.min_nodes, .clusters = options.clusters, .pins = options.pins});
  GeneticOptions genetic{.seed = options.seed,
                         .threads = options.threads,
                         .evaluations = evaluations,
                         .patience = model.nodes() <= kFewNodes ? 2 + model.nodes() : kPatience,
                         .limit = limit};
  if (options.progress) {
    genetic.progress = [&](const Score& best, double share) {
      options.progress(text_of(best, options.objective), share);
    };
  }
  std::vector<Grouping> seeds =
      structured_seeds(model, objective, rng_key(options.seed, "clusterize.seeds"), options.threads, limit);
  if (options.objective == Objective::kThroughput)
    std::ranges::move(packed_groupings(model, objective, options.threads, limit), std::back_inserter(seeds));
  Individual best = genetic_search(objective, seeds, genetic);
  if (best.score[0] > 0) return std::nullopt;
  best.grouping = polished(model, objective, best.grouping);
  best.score = objective.score(best.grouping);
  Grouping plain = canonical(model, best.grouping);
  plain.clusters = objective.ordered(plain.clusters);
  if (!(best.score < objective.score(plain))) return plain;
  best.grouping.clusters = objective.ordered(best.grouping.clusters);
  return best.grouping;
}

}  // namespace rookery
