#include "clusterize/order/ring_order.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <string>
#include <utility>

namespace rookery {
namespace {

using Matrix = std::vector<std::vector<double>>;

// A nearest neighbour's tour, in which stretches are turned round as long as that makes the longest way
// shorter, or the sum of equal ones.
template <typename Way>
std::vector<std::size_t> short_tour(std::size_t count, const Way& way_between) {
  std::vector<std::size_t> tour(count);
  std::iota(tour.begin(), tour.end(), 0);
  const auto way = [&](std::size_t a, std::size_t b) {
    return way_between(tour[a % tour.size()], tour[b % tour.size()]);
  };
  for (std::size_t i = 1; i < tour.size(); ++i) {
    std::size_t nearest = i;
    double least = kInfinite;
    for (std::size_t j = i; j < tour.size(); ++j) {
      const double seconds = way(i - 1, j);
      if (seconds >= least) continue;
      least = seconds;
      nearest = j;
    }
    std::swap(tour[i], tour[nearest]);
  }
  constexpr int kRounds = 20;
  constexpr std::size_t kMostTurned = 500;
  bool better = count <= kMostTurned;
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
    best_.assign(std::size_t{1} << count_, std::vector<double>(count_, kInfinite));
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
    double least = kInfinite;
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

// Puts clusters, given by region, into the order of a tour or of a walk.
class RingOrder::Walk {
 public:
  explicit Walk(std::vector<std::vector<PlacedCluster>> clusters) : clusters_(std::move(clusters)) {}

  // Clusters with their regions.
  using Row = std::vector<std::pair<PlacedCluster, int>>;

  Row along(const std::vector<int>& tour) {
    begin();
    for (const int region : tour) put(region, of(region).size());
    return std::move(row_);
  }

  // Around a spanning tree; nothing where no tree was found that passes through no region more often than it
  // has clusters.
  Row around_tree(const std::vector<Way>& ways) {
    begin();
    int first = 0;
    while (of(first).empty()) ++first;
    if (grow_tree(ways)) visit(first, -1);
    return std::move(row_);
  }

 private:
  std::vector<PlacedCluster>& of(int region) { return clusters_[region]; }

  void begin() {
    row_.clear();
    used_.assign(clusters_.size(), 0);
  }

  void put(int region, std::size_t count) {
    std::size_t& used = used_[region];
    for (; count > 0 && used < of(region).size(); --count) row_.emplace_back(of(region)[used++], region);
  }

  // Kruskal with as many ways at a region as it has clusters: a part that is joined keeps one free, unless
  // it is the whole.
  bool grow_tree(const std::vector<Way>& ways) {
    tree_.assign(clusters_.size(), {});
    std::vector<int> part(clusters_.size());
    std::iota(part.begin(), part.end(), 0);
    std::vector<std::ptrdiff_t> free(clusters_.size());
    std::ptrdiff_t parts = 0;
    for (std::size_t region = 0; region < clusters_.size(); ++region) {
      free[region] = std::ssize(clusters_[region]);
      parts += free[region] > 0 ? 1 : 0;
    }
    for (const auto& [seconds, from, to] : ways) {
      const auto a = static_cast<std::size_t>(from);
      const auto b = static_cast<std::size_t>(to);
      if (parts == 1) break;
      if (part[a] == part[b] || tree_[a].size() == clusters_[a].size() ||
          tree_[b].size() == clusters_[b].size())
        continue;
      std::ptrdiff_t& of_both = free[part[a]];
      const std::ptrdiff_t left = of_both + free[part[b]] - 2;
      if (left == 0 && parts > 2) continue;
      of_both = left;
      std::ranges::replace(part, int{part[b]}, int{part[a]});
      tree_[a].push_back(to);
      tree_[b].push_back(from);
      --parts;
    }
    return parts == 1;
  }

  // One cluster is kept for each way back.
  void visit(int region, int from) {
    const std::vector<int>& next = tree_[region];
    const std::size_t kept = next.size() - (from < 0 ? 0 : 1);
    put(region, std::max<std::size_t>(1, of(region).size() - kept));
    for (const int other : next) {
      if (other == from) continue;
      visit(other, region);
      put(region, 1);
    }
  }

  std::vector<std::vector<PlacedCluster>> clusters_;
  std::vector<std::vector<int>> tree_;  // neighbours
  std::vector<std::size_t> used_;
  Row row_;
};

RingOrder::RingOrder(const ThroughputModel& model) : model_(model) {
  std::map<std::string, int> numbers;
  for (int node = 0; node < model.nodes(); ++node) {
    const PoolNode& own = model.pool().node(node);
    const auto [region, is_new] = numbers.emplace(own.region, static_cast<int>(numbers.size()));
    if (is_new) best_node_.push_back(node);
    region_of_.push_back(region->second);
    int& best = best_node_[region->second];
    if (own.bandwidth_mbps > model.pool().node(best).bandwidth_mbps) best = node;
  }
}

double RingOrder::way_seconds(int from, int to, std::size_t clusters) const {
  if (from == to) return 0;
  const CutWay way = model_.way(best_node_[from], best_node_[to]);
  return way.latency +
         model_.sums().round_bytes.back() / static_cast<double>(clusters) / way.bytes_per_second;
}

const std::vector<int>& RingOrder::tour(const std::vector<int>& regions, std::size_t clusters) const {
  const std::size_t about = std::bit_floor(clusters);
  std::vector<int> key{static_cast<int>(about)};
  key.insert(key.end(), regions.begin(), regions.end());
  return tours_.get(key, [&] {
    std::vector<int> tour;
    for (const std::size_t i : short_tour(regions.size(), [&](std::size_t a, std::size_t b) {
           return way_seconds(regions[a], regions[b], about);
         }))
      tour.push_back(regions[i]);
    return tour;
  });
}

const std::vector<RingOrder::Way>& RingOrder::ways(std::size_t clusters) const {
  const std::size_t about = std::bit_floor(clusters);
  return ways_.get({static_cast<int>(about)}, [&] {
    std::vector<Way> all;
    const auto regions = static_cast<int>(best_node_.size());
    for (int a = 0; a < regions; ++a) {
      for (int b = a + 1; b < regions; ++b) all.push_back({way_seconds(a, b, about), a, b});
    }
    std::ranges::stable_sort(all, {}, &Way::seconds);
    return all;
  });
}

int RingOrder::region(const PlacedCluster& cluster) const {
  return region_of_[cluster.members->front()];
}

void RingOrder::arrange(std::vector<PlacedCluster>& clusters) const {
  if (clusters.size() <= 3) return;  // every cycle has the same ways
  if (clusters.size() <= kExactClusters) return arrange_exactly(clusters);
  arrange_by_regions(clusters);
  if (!model_.apart().empty()) separate(clusters);
}

void RingOrder::arrange_by_regions(std::vector<PlacedCluster>& clusters) const {
  std::ranges::sort(clusters, {}, [](const PlacedCluster& cluster) { return cluster.members->front(); });
  std::vector<std::vector<PlacedCluster>> by_region(best_node_.size());
  for (const PlacedCluster& cluster : clusters) by_region[region(cluster)].push_back(cluster);
  // Of very many regions there is one tour for all sets of them, and no tree.
  constexpr std::size_t kManyRegions = 300;
  const bool are_many = by_region.size() > kManyRegions;
  std::vector<int> regions;
  for (std::size_t number = 0; number < by_region.size(); ++number) {
    if (are_many || !by_region[number].empty()) regions.push_back(static_cast<int>(number));
  }
  if (regions.size() < 2) return;

  Walk walk(std::move(by_region));
  const auto longest = [&](const Walk::Row& row) {
    double seconds = 0;
    for (std::size_t i = 0; i < row.size(); ++i)
      seconds =
          std::max(seconds, way_seconds(row[i].second, row[(i + 1) % row.size()].second, clusters.size()));
    return seconds;
  };
  Walk::Row best = walk.along(tour(regions, clusters.size()));
  if (!are_many) {
    Walk::Row other = walk.around_tree(ways(clusters.size()));
    if (!other.empty() && longest(other) < longest(best)) best = std::move(other);
  }
  for (std::size_t i = 0; i < best.size(); ++i) clusters[i] = best[i].first;
}

void RingOrder::separate(std::vector<PlacedCluster>& clusters) const {
  const std::size_t count = clusters.size();
  const auto connect = [&](std::size_t at) {  // with the next
    const PlacedCluster& own = clusters[at % count];
    const PlacedCluster& next = clusters[(at + 1) % count];
    return model_.rings_connect(own, own.cost->cuts.front(), next, next.cost->cuts.front());
  };
  const auto fits = [&](std::size_t at) { return connect(at + count - 1) && connect(at); };
  for (std::size_t at = 0; at < count; ++at) {
    for (std::size_t other = 0; other < count && !connect(at); ++other) {
      const std::size_t next = (at + 1) % count;
      std::swap(clusters[next], clusters[other]);
      if (!fits(next) || !fits(other)) std::swap(clusters[next], clusters[other]);
    }
  }
}

void RingOrder::arrange_exactly(std::vector<PlacedCluster>& clusters) const {
  const Matrix ways = model_.ring_ways(clusters);
  double as_it_is = 0;
  for (std::size_t c = 0; c < clusters.size(); ++c)
    as_it_is = std::max(as_it_is, ways[c][(c + 1) % clusters.size()]);
  const BottleneckCycle best(ways);
  if (best.length() >= as_it_is) return;
  std::vector<PlacedCluster> result;
  for (const std::size_t cluster : best.cycle()) result.push_back(clusters[cluster]);
  clusters = std::move(result);
}

}  // namespace rookery
