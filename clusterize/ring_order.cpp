#include "clusterize/ring_order.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

namespace rookery {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

using Matrix = std::vector<std::vector<double>>;

// A nearest neighbour's tour, in which stretches are turned round as long as that makes the longest way
// shorter, or the sum of equal ones.
std::vector<std::size_t> short_tour(const Matrix& ways) {
  std::vector<std::size_t> tour(ways.size());
  std::iota(tour.begin(), tour.end(), 0);
  const auto way = [&](std::size_t a, std::size_t b) {
    return ways[tour[a % tour.size()]][tour[b % tour.size()]];
  };
  for (std::size_t i = 1; i < tour.size(); ++i) {
    const auto nearest = std::min_element(
        tour.begin() + static_cast<std::ptrdiff_t>(i), tour.end(),
        [&](std::size_t a, std::size_t b) { return ways[tour[i - 1]][a] < ways[tour[i - 1]][b]; });
    std::iter_swap(tour.begin() + static_cast<std::ptrdiff_t>(i), nearest);
  }
  constexpr int kRounds = 20;
  bool better = true;
  for (int round = 0; better && round < kRounds; ++round) {
    better = false;
    for (std::size_t a = 0; a + 2 < tour.size(); ++a) {
      for (std::size_t b = a + 2; b < tour.size(); ++b) {
        const auto [old_low, old_high] = std::minmax({way(a, a + 1), way(b, b + 1)});
        const auto [low, high] = std::minmax({way(a, b), way(a + 1, b + 1)});
        if (std::pair(high, low) >= std::pair(old_high, old_low)) continue;
        std::reverse(tour.begin() + static_cast<std::ptrdiff_t>(a) + 1,
                     tour.begin() + static_cast<std::ptrdiff_t>(b) + 1);
        better = true;
      }
    }
  }
  return tour;
}

// Of the cycle through all that has the shortest longest way, by dynamic programming over subsets.
class BottleneckCycle {
 public:
  explicit BottleneckCycle(const Matrix& ways) : ways_(ways), count_(ways.size()) {
    best_.assign(std::size_t{1} << count_, std::vector<double>(count_, kNever));
    best_[1][0] = 0;
    for (std::size_t visited = 1; visited < best_.size(); visited += 2) {
      for (std::size_t last = 1; last < count_; ++last) {
        if ((visited >> last & 1U) != 0) best_[visited][last] = longest(visited, last, before(visited, last));
      }
    }
  }

  double length() const { return longest_of_cycle(last()); }

  std::vector<std::size_t> cycle() const {
    std::vector<std::size_t> row;
    std::size_t visited = best_.size() - 1;
    for (std::size_t at = last(); at != 0;) {
      row.push_back(at);
      const std::size_t next = before(visited, at);
      visited ^= std::size_t{1} << at;
      at = next;
    }
    row.push_back(0);
    std::ranges::reverse(row);
    return row;
  }

 private:
  // Longest way of a path from 0 through `visited` to `last` that comes from `previous`.
  double longest(std::size_t visited, std::size_t last, std::size_t previous) const {
    return std::max(best_[visited ^ (std::size_t{1} << last)][previous], ways_[previous][last]);
  }
  std::size_t before(std::size_t visited, std::size_t last) const {
    std::size_t found = 0;
    double least = kNever;
    for (std::size_t previous = 0; previous < count_; ++previous) {
      if (previous == last || (visited >> previous & 1U) == 0) continue;
      const double length = longest(visited, last, previous);
      if (length >= least) continue;
      least = length;
      found = previous;
    }
    return found;
  }
  double longest_of_cycle(std::size_t last) const { return std::max(best_.back()[last], ways_[last][0]); }
  std::size_t last() const {
    std::size_t found = 1;
    for (std::size_t i = 2; i < count_; ++i) {
      if (longest_of_cycle(i) < longest_of_cycle(found)) found = i;
    }
    return found;
  }

  const Matrix& ways_;  // of the caller
  std::size_t count_;
  Matrix best_;  // by subset with 0 and last
};

}  // namespace

RingOrder::RingOrder(const CostModel& model) : model_(model) {
  std::map<std::string, std::size_t> numbers;
  std::vector<int> firsts;  // a node of each region
  for (int node = 0; node < model.nodes(); ++node) {
    const std::string& region = model.pool().nodes()[static_cast<std::size_t>(node)].region;
    if (numbers.emplace(region, numbers.size()).second) firsts.push_back(node);
  }
  Matrix ways(firsts.size(), std::vector<double>(firsts.size(), 0));
  for (std::size_t a = 0; a < firsts.size(); ++a) {
    for (std::size_t b = 0; b < firsts.size(); ++b) {
      if (a == b) continue;
      const CutWay way = model.way(firsts[a], firsts[b]);
      ways[a][b] = way.latency + model.sums().parameter_bytes.back() / way.bytes_per_second;
    }
  }
  std::vector<int> place(firsts.size());
  const std::vector<std::size_t> tour = short_tour(ways);
  for (std::size_t i = 0; i < tour.size(); ++i) place[tour[i]] = static_cast<int>(i);
  for (const PoolNode& node : model.pool().nodes()) places_.push_back(place[numbers.at(node.region)]);
}

Clusters RingOrder::ordered(const Clusters& clusters) const {
  if (clusters.size() <= 3) return clusters;  // every cycle has the same ways
  if (clusters.size() <= kExactClusters) return exact(clusters);
  Clusters result = clusters;
  std::ranges::stable_sort(result, {}, [&](const std::vector<int>& members) {
    return std::pair(places_[static_cast<std::size_t>(members.front())], members.front());
  });
  return result;
}

Clusters RingOrder::exact(const Clusters& clusters) const {
  std::vector<const InnerCut*> cuts;
  for (const std::vector<int>& members : clusters) cuts.push_back(&model_.cluster(members).cuts.front());
  const Matrix ways = model_.ring_ways(clusters, cuts);
  double as_it_is = 0;
  for (std::size_t c = 0; c < clusters.size(); ++c)
    as_it_is = std::max(as_it_is, ways[c][(c + 1) % clusters.size()]);
  const BottleneckCycle best(ways);
  if (best.length() >= as_it_is) return clusters;
  Clusters result;
  for (const std::size_t cluster : best.cycle()) result.push_back(clusters[cluster]);
  return result;
}

}  // namespace rookery
