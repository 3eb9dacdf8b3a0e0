#include "clusterize/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "clusterize/canonical.hpp"
#include "models/base/error.hpp"

namespace rookery {
namespace {

constexpr int kPopulation = 40;
constexpr int kElite = 4;
constexpr int kTournament = 3;
constexpr int kGenerations = 200;
constexpr int kPatience = 40;              // generations without a better best
constexpr int kLocalEvaluations = 20'000;  // of the descent that follows

// Smaller is better, compared from the front.
using Score = std::array<double, 6>;

struct Individual {
  Grouping grouping;
  Score score{};
};

class Search {
 public:
  Search(CostModel& model, const SearchOptions& options)
      : model_(model),
        options_(options),
        min_nodes_(std::clamp(options.min_nodes, 1, std::min(model.nodes(), model.costs().count()))),
        rng_(rng_key(options.seed, "clusterize.search"), 0) {}

  Individual run() {
    std::vector<Individual> population = first_population();
    int since_better = 0;
    for (int generation = 0; generation < kGenerations && since_better < kPatience; ++generation) {
      const Score best = population.front().score;
      population = next_generation(population);
      since_better = population.front().score < best ? 0 : since_better + 1;
    }
    return descend(population.front());
  }

 private:
  Individual judge(Grouping grouping) {
    const Score score = score_of(grouping);
    return {std::move(grouping), score};
  }

  Score score_of(const Grouping& grouping) {
    double violations = grouping.clusters.empty() ? 1e9 : 0;
    double slowest = 0;
    double disorder = 0;
    for (const std::vector<int>& members : grouping.clusters) {
      const ClusterCost& cost = model_.cluster(members);
      if (!cost.fits) violations += cost.shortfall;
      violations += std::max(0.0, static_cast<double>(min_nodes_) - static_cast<double>(members.size()));
      slowest = std::max(slowest, cost.step_seconds);
      for (std::size_t i = 0; i < members.size(); ++i)
        disorder +=
            static_cast<double>(std::count_if(members.begin() + static_cast<std::ptrdiff_t>(i), members.end(),
                                              [&](int later) { return later < members[i]; }));
    }
    if (violations > 0) return {violations, 0, 0, 0, 0, disorder};
    const auto left_out = static_cast<double>(grouping.left_out.size());
    if (options_.objective == Objective::kThroughput)
      return {0, -model_.samples_per_second(grouping.clusters), left_out, 0, 0, disorder};
    return {0,       -static_cast<double>(grouping.clusters.size()), left_out, imbalance(grouping), slowest,
            disorder};
  }

  // Sum of squared relative deviations of the clusters' RAM and bandwidth from their means; rounded,
  // so that the order of the sums makes no difference.
  double imbalance(const Grouping& grouping) const {
    double total = 0;
    for (const auto capability : {&PoolNode::ram_gb, &PoolNode::bandwidth_mbps}) {
      std::vector<double> sums;
      for (const std::vector<int>& members : grouping.clusters) {
        double sum = 0;
        for (const int node : members)
          sum += model_.pool().nodes()[static_cast<std::size_t>(node)].*capability;
        sums.push_back(sum);
      }
      const double mean = std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(sums.size());
      for (const double sum : sums) total += (sum / mean - 1) * (sum / mean - 1);
    }
    return std::round(total * 1e9) / 1e9;
  }

  // Nodes by id, by region, by RAM and by speed, dealt into few and many clusters; single nodes; the
  // rest at random.
  std::vector<Individual> first_population() {
    std::vector<int> ids(static_cast<std::size_t>(model_.nodes()));
    std::iota(ids.begin(), ids.end(), 0);
    const auto& nodes = model_.pool().nodes();
    const auto node = [&](int id) -> const PoolNode& { return nodes[static_cast<std::size_t>(id)]; };
    std::vector<std::vector<int>> orders(4, ids);
    std::ranges::stable_sort(orders[1], {}, [&](int id) { return node(id).region; });
    std::ranges::stable_sort(orders[2], {}, [&](int id) { return -node(id).ram_gb; });
    std::ranges::stable_sort(orders[3], {}, [&](int id) { return -model_.flops_per_second(id); });
    std::vector<Individual> population;
    for (const std::vector<int>& order : orders) {
      population.push_back(judge(deal(order, std::max(1, model_.nodes() / min_nodes_))));
      for (int clusters = 1; clusters <= model_.nodes(); clusters += 1 + clusters / 16)
        population.push_back(judge(deal(order, clusters)));
    }
    for (const int id : ids) {  // one machine alone
      Grouping alone{.clusters = {{id}}, .left_out = ids};
      std::erase(alone.left_out, id);
      population.push_back(judge(std::move(alone)));
    }
    for (int i = 0; i < kPopulation; ++i) population.push_back(judge(random_grouping()));
    keep_best(population);
    return population;
  }

  Grouping random_grouping() {
    std::vector<int> order(static_cast<std::size_t>(model_.nodes()));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[rng_.next_below(static_cast<std::uint32_t>(i))]);
    const int most = std::max(1, model_.nodes() / min_nodes_);
    return deal(order, 1 + static_cast<int>(rng_.next_below(static_cast<std::uint32_t>(most))));
  }

  static void keep_best(std::vector<Individual>& population) {
    std::ranges::stable_sort(population, {}, &Individual::score);
    const auto same = [](const Individual& a, const Individual& b) { return a.grouping == b.grouping; };
    population.erase(std::unique(population.begin(), population.end(), same), population.end());
    if (population.size() > kPopulation) population.resize(kPopulation);
  }

  const Individual& pick(const std::vector<Individual>& population) {
    std::size_t best = population.size();
    for (int i = 0; i < kTournament; ++i)
      best = std::min<std::size_t>(best, rng_.next_below(static_cast<std::uint32_t>(population.size())));
    return population[best];  // sorted: the smallest index is the best
  }

  std::vector<Individual> next_generation(const std::vector<Individual>& parents) {
    std::vector<Individual> children(parents.begin(),
                                     parents.begin() + std::min<std::ptrdiff_t>(kElite, std::ssize(parents)));
    while (children.size() < kPopulation) {
      Grouping child = pick(parents).grouping;
      if (rng_.next_below(2) == 0) child = cross(child, pick(parents).grouping, rng_);
      for (std::uint32_t changes = rng_.next_below(3) + 1; changes > 0; --changes)
        child = mutate(child, rng_);
      children.push_back(judge(std::move(child)));
    }
    keep_best(children);
    return children;
  }

  // Takes the first better neighbour until there is none.
  Individual descend(Individual best) {
    int left = kLocalEvaluations;
    for (bool better = true; better && left > 0;) {
      better = false;
      for (Grouping& neighbour : neighbours(best.grouping)) {
        if (left-- == 0) break;
        Individual candidate = judge(std::move(neighbour));
        if (!(candidate.score < best.score)) continue;
        best = std::move(candidate);
        better = true;
        break;
      }
    }
    return best;
  }

  CostModel& model_;  // outlives the search: it lives in find_clusters()
  SearchOptions options_;
  int min_nodes_;
  CounterRng rng_;
};

std::string memory_text(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.3g} MB", bytes / 1e6) : fmt::format("{:.3g} GB", bytes / 1e9);
}

[[noreturn]] void fail_memory(const CostModel& model) {
  const ModelCosts& costs = model.costs();
  double together = 0;
  double largest = 0;
  for (const PoolNode& node : model.pool().nodes()) {
    together += 1e9 * node.ram_gb;
    largest = std::max(largest, 1e9 * node.ram_gb);
  }
  const auto& memory = costs.may_recompute ? costs.recomputed_memory : costs.memory;
  std::int64_t piece = 0;
  for (int i = 0; i < costs.count(); ++i) piece = std::max(piece, memory(i, i + 1, 1));
  const auto whole = static_cast<double>(memory(0, costs.count(), 1));
  std::string advice = "use a smaller batch_size, more micro_batches, ";
  if (!costs.may_recompute && costs.recomputed_memory) {
    const auto recomputed = static_cast<double>(costs.recomputed_memory(0, costs.count(), 1));
    advice += fmt::format("recompute \"auto\" (on one machine it then takes {}), ", memory_text(recomputed));
  }
  constexpr const char* kMessage =
      "{} with batch_size {} and micro_batches {} does not fit{}: on one machine it takes {}, its largest "
      "piece that cannot be cut {} with buffers for its links; all machines ({}) have {} together, the "
      "largest {}: {}or more or larger machines";
  throw ConfigError(fmt::format(kMessage, costs.name, costs.batch_size, costs.micro_batches,
                                costs.may_recompute ? ", even with activations recomputed" : "",
                                memory_text(whole), memory_text(static_cast<double>(piece)), model.nodes(),
                                memory_text(together), memory_text(largest), advice));
}

}  // namespace

const char* name_of(Objective objective) {
  return objective == Objective::kSimilar ? "similar" : "throughput";
}

SearchOptions usual_search(const NodePool& pool, std::uint64_t seed, std::optional<Objective> objective) {
  SearchOptions options{.objective = pool.has_speeds() ? Objective::kThroughput : Objective::kSimilar,
                        .seed = seed};
  if (objective) options.objective = *objective;
  if (options.objective == Objective::kThroughput) options.min_nodes = 1;
  return options;
}

Grouping find_clusters(CostModel& model, const SearchOptions& options) {
  const Individual best = Search(model, options).run();
  if (best.score[0] > 0) fail_memory(model);
  return canonical(model, best.grouping);
}

}  // namespace rookery
