#include "clusterize/genetic/genetic_search.hpp"

#include <algorithm>

#include "models/base/check.hpp"
#include "models/base/parallel.hpp"

namespace rookery {
namespace {

constexpr std::size_t kPopulation = 40;
constexpr std::size_t kChildren = 40;  // a generation
constexpr int kSteps = 25;             // that improve a child
constexpr std::size_t kTournament = 2;
constexpr std::size_t kDescents = 3;     // of the best at the end
constexpr std::size_t kNeighbours = 64;  // judged at once

class Search {
 public:
  Search(const GroupingObjective& objective, const GeneticOptions& options)
      : objective_(objective), options_(options), key_(rng_key(options.seed, "clusterize.search")) {
    variation_.fixed_sizes = objective.fixed_sizes();
    variation_.arrange = [&objective](std::vector<int>& cluster) { objective.arrange(cluster); };
  }

  Individual run(const std::vector<Grouping>& seeds) {
    std::vector<Individual> population = judge_all(seeds);
    keep_best(population);
    int since_better = 0;
    for (std::uint64_t generation = 0; since_better < options_.patience && !is_over(kBreedingEnds);
         ++generation) {
      const Score best = population.front().score;
      add_children(population, generation);
      keep_best(population);
      since_better = population.front().score < best ? 0 : since_better + 1;
      report(population.front());
    }
    Individual best = population.front();
    for (std::size_t i = 0; i < std::min(kDescents, population.size()); ++i) {
      Individual low = descend(population[i]);
      if (low.score < best.score) best = std::move(low);
    }
    report(best);
    return best;
  }

 private:
  Individual judge(Grouping grouping) const {
    const Score score = objective_.score(grouping);
    return {std::move(grouping), score};
  }

  std::vector<Individual> judge_all(const std::vector<Grouping>& groupings) {
    std::vector<Individual> all(groupings.size());
    parallel_for(all.size(), options_.threads, [&](std::size_t i) { all[i] = judge(groupings[i]); });
    evaluations_ += std::ssize(all);
    return all;
  }

  // Of groupings with the same score one is enough: others would crowd out what differs.
  static void keep_best(std::vector<Individual>& population) {
    std::ranges::stable_sort(population, {}, &Individual::score);
    const auto same = [](const Individual& a, const Individual& b) { return a.score == b.score; };
    population.erase(std::unique(population.begin(), population.end(), same), population.end());
    if (population.size() > kPopulation) population.resize(kPopulation);
  }

  static const Individual& pick(const std::vector<Individual>& population, CounterRng& rng) {
    std::size_t best = population.size();
    for (std::size_t i = 0; i < kTournament; ++i)
      best = std::min<std::size_t>(best, rng.next_below(static_cast<std::uint32_t>(population.size())));
    return population[best];  // sorted: the smallest index is the best
  }

  void add_children(std::vector<Individual>& population, std::uint64_t generation) {
    std::vector<Individual> children(kChildren);
    parallel_for(kChildren, options_.threads, [&](std::size_t i) {
      CounterRng rng(key_, generation * kChildren + i);
      children[i] = make_child(population, rng);
    });
    evaluations_ += static_cast<std::int64_t>(kChildren) * (kSteps + 1);
    std::ranges::move(children, std::back_inserter(population));
  }

  Individual make_child(const std::vector<Individual>& parents, CounterRng& rng) const {
    Grouping start = pick(parents, rng).grouping;
    if (rng.next_below(2) == 0) start = cross(start, pick(parents, rng).grouping, rng, variation_);
    for (std::uint32_t changes = rng.next_below(3); changes > 0; --changes) mutate(start, rng, variation_);
    Individual child = judge(std::move(start));
    for (int step = 0; step < kSteps; ++step) {
      Grouping next = child.grouping;
      mutate(next, rng, variation_);
      Individual candidate = judge(std::move(next));
      if (!(child.score < candidate.score)) child = std::move(candidate);
    }
    return child;
  }

  // Goes to the best of the first neighbours that hold a better one until there is none.
  Individual descend(Individual best) {
    for (bool better = true; better && !is_over(1);) {
      better = false;
      std::vector<Grouping> batch;
      const auto take_best = [&] {
        for (Individual& candidate : judge_all(batch)) {
          if (!(candidate.score < best.score)) continue;
          best = std::move(candidate);
          better = true;
        }
        batch.clear();
      };
      const Grouping from = best.grouping;
      for_each_neighbour(from, variation_, [&](Grouping& neighbour) {
        batch.push_back(std::move(neighbour));
        if (batch.size() == kNeighbours) take_best();
        return !better && !is_over(1);
      });
      if (!better) take_best();
    }
    return best;
  }

  bool is_over(double share) const {
    return static_cast<double>(evaluations_) >= share * static_cast<double>(options_.evaluations) ||
           options_.limit.is_over(share);
  }

  void report(const Individual& best) const {
    if (!options_.progress) return;
    const double share = static_cast<double>(evaluations_) / static_cast<double>(options_.evaluations);
    options_.progress(best.score, std::min(1.0, share));
  }

  const GroupingObjective& objective_;  // both outlive the search: it lives in genetic_search()
  const GeneticOptions& options_;
  RngKey key_;
  Variation variation_;
  std::int64_t evaluations_ = 0;
};

}  // namespace

Individual genetic_search(const GroupingObjective& objective, const std::vector<Grouping>& seeds,
                          const GeneticOptions& options) {
  ROOKERY_CHECK(!seeds.empty(), "a search without seeds");
  return Search(objective, options).run(seeds);
}

}  // namespace rookery
