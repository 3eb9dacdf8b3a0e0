#include "clusterize/genetic/grouping.hpp"

#include <algorithm>
#include <cstdint>
#include <unordered_set>
#include <utility>

namespace rookery {
namespace {

// A node's place: cluster -1 are those left out.
struct Position {
  int cluster = -1;
  std::size_t index = 0;
};

std::size_t below(CounterRng& rng, std::size_t bound) {
  return rng.next_below(static_cast<std::uint32_t>(bound));
}

std::vector<int>& list(Grouping& grouping, int cluster) {
  return cluster < 0 ? grouping.left_out : grouping.clusters[cluster];
}

std::size_t count_nodes(const Grouping& grouping) {
  std::size_t count = grouping.left_out.size();
  for (const std::vector<int>& cluster : grouping.clusters) count += cluster.size();
  return count;
}

Position random_position(const Grouping& grouping, CounterRng& rng) {
  std::size_t index = below(rng, count_nodes(grouping));
  for (std::size_t cluster = 0; cluster < grouping.clusters.size(); ++cluster) {
    if (index < grouping.clusters[cluster].size()) return {static_cast<int>(cluster), index};
    index -= grouping.clusters[cluster].size();
  }
  return {-1, index};
}

std::vector<Position> positions(const Grouping& grouping) {
  std::vector<Position> all;
  for (std::size_t cluster = 0; cluster < grouping.clusters.size(); ++cluster) {
    for (std::size_t i = 0; i < grouping.clusters[cluster].size(); ++i)
      all.push_back({static_cast<int>(cluster), i});
  }
  for (std::size_t i = 0; i < grouping.left_out.size(); ++i) all.push_back({-1, i});
  return all;
}

// Ends every change: the clusters touched are put in order, empty ones go.
void settle(Grouping& grouping, std::initializer_list<int> touched, const Variation& variation) {
  for (const int cluster : touched) {
    if (cluster >= 0 && variation.arrange && !list(grouping, cluster).empty())
      variation.arrange(list(grouping, cluster));
  }
  std::erase_if(grouping.clusters, [](const std::vector<int>& cluster) { return cluster.empty(); });
}

// Takes the node out of its place and puts it at the end of `cluster`, which may be a new one.
void move(Grouping& grouping, Position from, int cluster, const Variation& variation) {
  std::vector<int>& source = list(grouping, from.cluster);
  const int node = source[from.index];
  source.erase(source.begin() + static_cast<std::ptrdiff_t>(from.index));
  if (cluster == static_cast<int>(grouping.clusters.size())) grouping.clusters.emplace_back();
  list(grouping, cluster).push_back(node);
  settle(grouping, {from.cluster, cluster}, variation);
}

void exchange(Grouping& grouping, Position a, Position b, const Variation& variation) {
  std::swap(list(grouping, a.cluster)[a.index], list(grouping, b.cluster)[b.index]);
  if (a.cluster != b.cluster) settle(grouping, {a.cluster, b.cluster}, variation);
}

void exchange_two(Grouping& grouping, CounterRng& rng, const Variation& variation) {
  const Position a = random_position(grouping, rng);
  exchange(grouping, a, random_position(grouping, rng), variation);
}

void move_one(Grouping& grouping, CounterRng& rng, const Variation& variation) {
  // To any cluster, a new one, or out.
  const Position from = random_position(grouping, rng);
  const int cluster = static_cast<int>(below(rng, grouping.clusters.size() + 2)) - 1;
  if (cluster != from.cluster) move(grouping, from, cluster, variation);
}

void merge_two(Grouping& grouping, CounterRng& rng, const Variation& variation) {
  if (grouping.clusters.size() < 2) return;
  const std::size_t from = below(rng, grouping.clusters.size());
  std::size_t into = below(rng, grouping.clusters.size() - 1);
  if (into >= from) ++into;
  std::vector<int> nodes = std::exchange(grouping.clusters[from], {});
  grouping.clusters[into].insert(grouping.clusters[into].end(), nodes.begin(), nodes.end());
  settle(grouping, {static_cast<int>(into)}, variation);
}

void split_one(Grouping& grouping, CounterRng& rng, const Variation& variation) {
  if (grouping.clusters.empty()) return;
  const std::size_t chosen = below(rng, grouping.clusters.size());
  if (grouping.clusters[chosen].size() < 2) return;
  std::vector<int>& cluster = grouping.clusters[chosen];
  const std::size_t at = 1 + below(rng, cluster.size() - 1);
  std::vector<int> rear(cluster.begin() + static_cast<std::ptrdiff_t>(at), cluster.end());
  cluster.resize(at);
  grouping.clusters.push_back(std::move(rear));
  settle(grouping, {static_cast<int>(chosen), static_cast<int>(grouping.clusters.size()) - 1}, variation);
}

// All nodes of a cluster are left out, or join other clusters.
void dissolve_one(Grouping& grouping, CounterRng& rng, const Variation& variation) {
  if (grouping.clusters.size() < 2) return;
  const std::size_t chosen = below(rng, grouping.clusters.size());
  const bool joins = below(rng, 2) == 0;
  std::vector<int> nodes = std::move(grouping.clusters[chosen]);
  grouping.clusters.erase(grouping.clusters.begin() + static_cast<std::ptrdiff_t>(chosen));
  for (const int node : nodes) {
    const int into = joins ? static_cast<int>(below(rng, grouping.clusters.size())) : -1;
    list(grouping, into).push_back(node);
    settle(grouping, {into}, variation);
  }
}

void reorder_one(Grouping& grouping, CounterRng& rng) {
  if (grouping.clusters.empty()) return;
  std::vector<int>& cluster = grouping.clusters[below(rng, grouping.clusters.size())];
  const std::size_t a = below(rng, cluster.size());
  const std::size_t b = below(rng, cluster.size());
  if (below(rng, 2) == 0) {
    std::swap(cluster[a], cluster[b]);
  } else {
    std::reverse(cluster.begin() + static_cast<std::ptrdiff_t>(std::min(a, b)),
                 cluster.begin() + static_cast<std::ptrdiff_t>(std::max(a, b)) + 1);
  }
}

// Nodes that no cluster has yet fill up those that are too small.
void fill_up(Grouping& grouping, const std::vector<std::size_t>& sizes, std::vector<int> free,
             CounterRng& rng) {
  for (std::size_t i = free.size(); i > 1; --i) std::swap(free[i - 1], free[below(rng, i)]);
  for (std::size_t c = 0; c < grouping.clusters.size(); ++c) {
    while (grouping.clusters[c].size() < sizes[c]) {
      grouping.clusters[c].push_back(free.back());
      free.pop_back();
    }
  }
}

// Keeps the donor's clusters in the front and of the base's, which lost nodes to them, those that lost
// least, so that the sizes remain.
void keep_sizes(Grouping& child, std::size_t donated, std::size_t count, std::size_t size, CounterRng& rng) {
  std::stable_sort(child.clusters.begin() + static_cast<std::ptrdiff_t>(donated), child.clusters.end(),
                   [](const std::vector<int>& a, const std::vector<int>& b) { return a.size() > b.size(); });
  std::vector<int> free;
  for (std::size_t c = count; c < child.clusters.size(); ++c)
    free.insert(free.end(), child.clusters[c].begin(), child.clusters[c].end());
  child.clusters.resize(count);
  fill_up(child, std::vector<std::size_t>(count, size), std::move(free), rng);
}

}  // namespace

Grouping deal(const std::vector<int>& order, int clusters) {
  Grouping grouping;
  std::size_t next = 0;
  for (std::size_t c = 0; c < static_cast<std::size_t>(clusters); ++c) {
    const std::size_t end = order.size() * (c + 1) / static_cast<std::size_t>(clusters);
    grouping.clusters.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(next),
                                   order.begin() + static_cast<std::ptrdiff_t>(end));
    next = end;
  }
  std::erase_if(grouping.clusters, [](const std::vector<int>& cluster) { return cluster.empty(); });
  std::ranges::stable_sort(grouping.clusters, {}, &std::vector<int>::size);
  return grouping;
}

std::vector<int> spread(const std::vector<int>& order, std::size_t stride) {
  std::vector<int> result;
  for (std::size_t first = 0; first < stride; ++first) {
    for (std::size_t i = first; i < order.size(); i += stride) result.push_back(order[i]);
  }
  return result;
}

void mutate(Grouping& grouping, CounterRng& rng, const Variation& variation) {
  if (variation.fixed_sizes) return exchange_two(grouping, rng, variation);
  switch (rng.next_below(12)) {
    case 0:
      return merge_two(grouping, rng, variation);
    case 1:
      return split_one(grouping, rng, variation);
    case 2:
      return dissolve_one(grouping, rng, variation);
    case 3:
    case 4:
      return reorder_one(grouping, rng);
    case 5:
    case 6:
    case 7:
    case 8:
      return move_one(grouping, rng, variation);
    default:
      return exchange_two(grouping, rng, variation);
  }
}

Grouping cross(const Grouping& base, const Grouping& donor, CounterRng& rng, const Variation& variation) {
  Grouping child;
  std::unordered_set<int> taken;
  for (const std::vector<int>& cluster : donor.clusters) {
    if (below(rng, 2) == 0) continue;
    child.clusters.push_back(cluster);
    taken.insert(cluster.begin(), cluster.end());
  }
  const std::size_t donated = child.clusters.size();
  const auto is_taken = [&](int node) { return taken.contains(node); };
  for (std::vector<int> cluster : base.clusters) {
    const bool changed = std::erase_if(cluster, is_taken) > 0;
    if (changed && variation.arrange && !cluster.empty()) variation.arrange(cluster);
    child.clusters.push_back(std::move(cluster));
  }
  child.left_out = base.left_out;
  std::erase_if(child.left_out, is_taken);
  if (variation.fixed_sizes && !base.clusters.empty())
    keep_sizes(child, donated, base.clusters.size(), base.clusters.front().size(), rng);
  settle(child, {}, variation);
  return child;
}

void for_each_neighbour(const Grouping& grouping, const Variation& variation,
                        const std::function<bool(Grouping&)>& visit) {
  const auto visited = [&](const auto& change) {
    Grouping neighbour = grouping;
    change(neighbour);
    return visit(neighbour);
  };
  const std::vector<Position> places = positions(grouping);
  for (std::size_t a = 0; a < places.size(); ++a) {
    for (std::size_t b = a + 1; b < places.size(); ++b) {
      const bool useless =
          places[a].cluster == places[b].cluster && (places[a].cluster < 0 || variation.fixed_sizes);
      if (useless) continue;
      if (!visited([&](Grouping& copy) { exchange(copy, places[a], places[b], variation); })) return;
    }
  }
  if (variation.fixed_sizes) return;
  const auto clusters = static_cast<int>(grouping.clusters.size());
  for (const Position& from : places) {
    for (int cluster = -1; cluster <= clusters; ++cluster) {
      if (cluster == from.cluster) continue;
      if (!visited([&](Grouping& copy) { move(copy, from, cluster, variation); })) return;
    }
  }
}

}  // namespace rookery
