#include "clusterize/grouping.hpp"

#include <algorithm>
#include <cstdint>
#include <set>

namespace rookery {
namespace {

// A node's place: cluster -1 are those left out.
struct Position {
  int cluster = -1;
  std::size_t index = 0;
};

std::vector<int>& list(Grouping& grouping, int cluster) {
  return cluster < 0 ? grouping.left_out : grouping.clusters[static_cast<std::size_t>(cluster)];
}

int& node_at(Grouping& grouping, Position at) {
  return list(grouping, at.cluster)[at.index];
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

void drop_empty(Grouping& grouping) {
  std::erase_if(grouping.clusters, [](const std::vector<int>& cluster) { return cluster.empty(); });
}

// Takes the node out of its place and puts it before `to`, which may be one past the end or a new
// cluster.
Grouping moved(Grouping grouping, Position from, Position to) {
  const int node = node_at(grouping, from);
  if (to.cluster == static_cast<int>(grouping.clusters.size())) grouping.clusters.emplace_back();
  std::vector<int>& source = list(grouping, from.cluster);
  source.erase(source.begin() + static_cast<std::ptrdiff_t>(from.index));
  std::vector<int>& target = list(grouping, to.cluster);
  target.insert(target.begin() + static_cast<std::ptrdiff_t>(std::min(to.index, target.size())), node);
  std::ranges::sort(grouping.left_out);
  drop_empty(grouping);
  return grouping;
}

Grouping exchanged(Grouping grouping, Position a, Position b) {
  std::swap(node_at(grouping, a), node_at(grouping, b));
  std::ranges::sort(grouping.left_out);
  return grouping;
}

std::size_t below(CounterRng& rng, std::size_t bound) {
  return rng.next_below(static_cast<std::uint32_t>(bound));
}

Grouping move_one(const Grouping& parent, CounterRng& rng) {
  const std::vector<Position> all = positions(parent);
  const Position from = all[below(rng, all.size())];
  // Every cluster, a new one, or out.
  const int cluster = static_cast<int>(below(rng, parent.clusters.size() + 2)) - 1;
  const bool is_old = cluster >= 0 && cluster < static_cast<int>(parent.clusters.size());
  const std::size_t places = is_old ? parent.clusters[static_cast<std::size_t>(cluster)].size() + 1 : 1;
  return moved(parent, from, {cluster, below(rng, places)});
}

Grouping exchange_two(const Grouping& parent, CounterRng& rng) {
  const std::vector<Position> all = positions(parent);
  const Position a = all[below(rng, all.size())];
  return exchanged(parent, a, all[below(rng, all.size())]);
}

Grouping merge_two(Grouping grouping, CounterRng& rng) {
  if (grouping.clusters.size() < 2) return grouping;
  const std::size_t from = below(rng, grouping.clusters.size());
  std::size_t into = below(rng, grouping.clusters.size() - 1);
  if (into >= from) ++into;
  grouping.clusters[into].insert(grouping.clusters[into].end(), grouping.clusters[from].begin(),
                                 grouping.clusters[from].end());
  grouping.clusters.erase(grouping.clusters.begin() + static_cast<std::ptrdiff_t>(from));
  return grouping;
}

Grouping split_one(Grouping grouping, CounterRng& rng) {
  if (grouping.clusters.empty()) return grouping;
  std::vector<int>& cluster = grouping.clusters[below(rng, grouping.clusters.size())];
  if (cluster.size() < 2) return grouping;
  const auto middle = cluster.begin() + static_cast<std::ptrdiff_t>(1 + below(rng, cluster.size() - 1));
  std::vector<int> rear(middle, cluster.end());
  cluster.erase(middle, cluster.end());
  grouping.clusters.push_back(std::move(rear));
  return grouping;
}

}  // namespace

Grouping deal(const std::vector<int>& order, int clusters) {
  Grouping grouping;
  std::size_t next = 0;
  for (int cluster = 0; cluster < clusters; ++cluster) {
    const std::size_t end =
        order.size() * static_cast<std::size_t>(cluster + 1) / static_cast<std::size_t>(clusters);
    grouping.clusters.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(next),
                                   order.begin() + static_cast<std::ptrdiff_t>(end));
    next = end;
  }
  drop_empty(grouping);
  std::ranges::stable_sort(grouping.clusters, {}, &std::vector<int>::size);
  return grouping;
}

Grouping mutate(const Grouping& parent, CounterRng& rng) {
  switch (rng.next_below(8)) {
    case 0:
      return merge_two(parent, rng);
    case 1:
      return split_one(parent, rng);
    case 2:
    case 3:
    case 4:
      return move_one(parent, rng);
    default:
      return exchange_two(parent, rng);
  }
}

Grouping cross(const Grouping& base, const Grouping& donor, CounterRng& rng) {
  Grouping child;
  std::set<int> taken;
  for (const std::vector<int>& cluster : donor.clusters) {
    if (rng.next_below(2) == 0) continue;
    child.clusters.push_back(cluster);
    taken.insert(cluster.begin(), cluster.end());
  }
  for (std::vector<int> cluster : base.clusters) {
    std::erase_if(cluster, [&](int node) { return taken.contains(node); });
    child.clusters.push_back(std::move(cluster));
  }
  child.left_out = base.left_out;
  std::erase_if(child.left_out, [&](int node) { return taken.contains(node); });
  drop_empty(child);
  return child;
}

std::vector<Grouping> neighbours(const Grouping& grouping) {
  std::vector<Grouping> all;
  const std::vector<Position> places = positions(grouping);
  for (std::size_t a = 0; a < places.size(); ++a) {
    for (std::size_t b = a + 1; b < places.size(); ++b) {
      if (places[a].cluster >= 0) all.push_back(exchanged(grouping, places[a], places[b]));
    }
  }
  const auto clusters = static_cast<int>(grouping.clusters.size());
  for (const Position& from : places) {
    for (int cluster = -1; cluster <= clusters; ++cluster) {
      if (cluster == from.cluster) continue;
      const bool is_old = cluster >= 0 && cluster < clusters;
      const std::size_t size = is_old ? grouping.clusters[static_cast<std::size_t>(cluster)].size() : 0;
      for (std::size_t index = 0; index <= size; ++index)
        all.push_back(moved(grouping, from, {cluster, index}));
    }
  }
  return all;
}

}  // namespace rookery
