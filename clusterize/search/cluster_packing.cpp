#include "clusterize/search/cluster_packing.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "clusterize/genetic/genetic_search.hpp"
#include "clusterize/order/connected.hpp"
#include "models/base/parallel.hpp"

namespace rookery {
namespace {

constexpr int kMostAdded = 3;              // to what holds the model, until a cluster keeps within the limits
constexpr int kMostMisses = 8;             // in a row; the region's other nodes are slower still
constexpr std::size_t kMostRegions = 300;  // beyond, the pool is taken as one
constexpr int kStepsTried = 12;            // limits at first, from the shortest to the longest
constexpr int kLoadsTried = 5;
constexpr int kRefinements = 4;         // each halves the distances
constexpr std::size_t kRefined = 3;     // of the best limits, each time
constexpr std::size_t kSetsJudged = 6;  // of regions, for each pair of limits
constexpr std::size_t kKept = 12;
constexpr double kShareOfTime = 0.6;  // at which packing ends

using Limits = std::pair<double, double>;  // seconds of a step, and of a connection's load

struct Packed {
  Clusters clusters;
  std::vector<int> rest;
};

// Regions that are connected by ways no slower than these.
struct Component {
  std::vector<std::size_t> regions;
  double latency = 0;
  double bytes_per_second = std::numeric_limits<double>::infinity();
};

class Packer {
 public:
  Packer(const ThroughputModel& model, const ClusterObjective& objective, const TimeLimit& limit)
      : model_(model), objective_(objective), limit_(limit) {
    std::map<std::string, std::vector<int>> regions;
    for (int node = 0; node < model.nodes(); ++node) regions[model.pool().node(node).region].push_back(node);
    if (regions.size() > kMostRegions) {
      std::vector<int> all(model.nodes());
      std::iota(all.begin(), all.end(), 0);
      regions = {{"", all}};
    }
    for (auto& [name, nodes] : regions) {
      std::ranges::stable_sort(nodes, {}, [&](int node) { return -model.flops_per_second(node); });
      regions_.push_back(std::move(nodes));
    }
    for (int node = 0; node < model.nodes(); ++node) {
      const double seconds =
          model.costs().micro_batches * model.sums().flops.back() / model.flops_per_second(node);
      const double load = model.sums().round_bytes.back() / model.machine(node, 1).bytes_per_second;
      shortest_ = {std::min(shortest_.first, seconds), std::min(shortest_.second, load)};
      longest_ = {std::max(longest_.first, seconds), std::max(longest_.second, load)};
    }
    const double parts = is_synchronous(model.costs().schedule) ? 2 : model.costs().count();
    shortest_ = {shortest_.first / parts, shortest_.second / 2};
  }

  std::vector<Grouping> run(int threads) {
    const double step_ratio = std::pow(longest_.first / shortest_.first, 1.0 / (kStepsTried - 1));
    const double load_ratio = std::pow(longest_.second / shortest_.second, 1.0 / (kLoadsTried - 1));
    std::set<Limits> limits;
    for (int step = 0; step < kStepsTried; ++step) {
      for (int load = 0; load < kLoadsTried; ++load)
        limits.emplace(shortest_.first * std::pow(step_ratio, step),
                       shortest_.second * std::pow(load_ratio, load));
    }
    judge({limits.begin(), limits.end()}, threads);
    for (int round = 1; round <= kRefinements; ++round) {
      const double finer = std::pow(0.5, round);
      std::set<Limits> next;
      for (std::size_t i = 0; i < std::min(kRefined, found_.size()); ++i) {
        const auto [step, load] = found_[i].first;
        for (const int sign : {-1, 1}) {
          next.emplace(step * std::pow(step_ratio, sign * finer), load);
          next.emplace(step, load * std::pow(load_ratio, sign * finer));
        }
      }
      judge({next.begin(), next.end()}, threads);
    }
    std::vector<Grouping> groupings;
    for (auto& [of, individual] : found_) groupings.push_back(std::move(individual.grouping));
    return groupings;
  }

 private:
  void judge(const std::vector<Limits>& limits, int threads) {
    std::vector<Individual> best(limits.size());
    parallel_for(limits.size(), threads, [&](std::size_t i) {
      if (!limit_.is_over(kShareOfTime)) best[i] = best_of(limits[i]);
    });
    for (std::size_t i = 0; i < limits.size(); ++i) {
      if (!best[i].grouping.clusters.empty()) found_.emplace_back(limits[i], std::move(best[i]));
    }
    std::ranges::stable_sort(found_, {}, [](const auto& found) { return found.second.score; });
    if (found_.size() > kKept) found_.resize(kKept);
  }

  Individual best_of(const Limits& limits) const {
    std::vector<Packed> packed;
    for (const std::vector<int>& nodes : regions_) packed.push_back(pack(nodes, limits));
    Individual best;
    const auto judge = [&](Grouping grouping) {
      if (grouping.clusters.empty()) return;
      Individual found{.grouping = std::move(grouping)};
      found.score = objective_.score(found.grouping);
      if (best.grouping.clusters.empty() || found.score < best.score) best = std::move(found);
    };
    for (const Component& component : promising(packed, limits)) {
      Packed all = together(packed, component);
      judge(grouping_of(all.clusters));
      // What is left may give more clusters, but for more averaging than they are worth.
      if (component.regions.size() == 1) continue;
      const Packed more = pack(std::move(all.rest), limits);
      if (more.clusters.empty()) continue;
      all.clusters.insert(all.clusters.end(), more.clusters.begin(), more.clusters.end());
      judge(grouping_of(std::move(all.clusters)));
    }
    return best;
  }

  Packed pack(std::vector<int> left, const Limits& limits) const {
    Packed packed;
    for (int failures = 0; !left.empty() && failures < kMostMisses;) {
      std::vector<int> cluster{left.front()};
      std::vector<int> others(left.begin() + 1, left.end());
      if (complete(cluster, others, limits)) {
        packed.clusters.push_back(std::move(cluster));
        left = std::move(others);
        failures = 0;
      } else {
        packed.rest.push_back(left.front());
        left.erase(left.begin());
        ++failures;
      }
    }
    packed.rest.insert(packed.rest.end(), left.begin(), left.end());
    return packed;
  }

  // Takes nodes of `left` until the cluster keeps within the limits, if it ever does.
  bool complete(std::vector<int>& cluster, std::vector<int>& left, const Limits& limits) const {
    int added = 0;
    std::vector<int> apart;  // that cannot connect with the cluster
    while (!keeps(cluster, limits)) {
      std::erase_if(left, [&](int node) {
        if (model_.can_join(cluster, node)) return false;
        apart.push_back(node);
        return true;
      });
      if (left.empty() || std::ssize(cluster) >= model_.costs().most_machines()) return false;
      if (is_enough(cluster) && ++added > kMostAdded) return false;
      const auto next =
          left.begin() + static_cast<std::ptrdiff_t>(slowest_that_completes(cluster, left, limits));
      cluster.push_back(*next);
      left.erase(next);
    }
    if (apart.empty()) return true;
    left.insert(left.end(), apart.begin(), apart.end());
    std::ranges::stable_sort(left, {}, [&](int node) { return -model_.flops_per_second(node); });
    return true;
  }

  // The fastest where none does.
  std::size_t slowest_that_completes(const std::vector<int>& cluster, const std::vector<int>& left,
                                     const Limits& limits) const {
    const auto completes = [&](std::size_t at) {
      std::vector<int> with = cluster;
      with.push_back(left[at]);
      return keeps(with, limits);
    };
    if (!completes(0)) return 0;
    std::size_t known = 0;
    for (std::size_t end = left.size(); end - known > 1;) {
      const std::size_t middle = known + (end - known) / 2;
      (completes(middle) ? known : end) = middle;
    }
    return known;
  }

  // As far as that can be told by counting.
  bool is_enough(const std::vector<int>& cluster) const {
    double memory = 0;
    for (const int node : cluster) memory += model_.ram_bytes(node);
    return memory >= model_.least_bytes() && std::ssize(cluster) >= objective_.constraints().min_nodes;
  }

  bool keeps(std::vector<int>& cluster, const Limits& limits) const {
    if (!is_enough(cluster)) return false;
    objective_.arrange(cluster);
    const std::vector<StagePartition>& cuts = model_.cluster(cluster).cuts;
    return std::ranges::any_of(cuts, [&](const StagePartition& cut) {
      return cut.step_seconds <= limits.first && cut.load_seconds <= limits.second;
    });
  }

  // Sets of regions, by what the limits and the slowest way within each lead one to expect.
  std::vector<Component> promising(const std::vector<Packed>& packed, const Limits& limits) const {
    std::vector<std::pair<double, Component>> all;
    std::size_t stages = 1;
    for (const Packed& region : packed) {
      for (const std::vector<int>& cluster : region.clusters) stages = std::max(stages, cluster.size());
    }
    const double ring_bytes = model_.sums().round_bytes.back() / static_cast<double>(stages);
    for (Component& component : components(packed, ring_bytes)) {
      double clusters = 0;
      for (const std::size_t region : component.regions)
        clusters += static_cast<double>(packed[region].clusters.size());
      if (clusters == 0) continue;
      const double message = std::max(component.latency + ring_bytes / clusters / component.bytes_per_second,
                                      limits.second / clusters);
      const double round = 2 * (clusters - 1) * message;
      const RoundRate rate = model_.costs().averaging.rate(static_cast<int>(clusters));
      const double averaging =
          exposed_seconds(rate, {.whole = round, .fragment = round / rate.fragments}, limits.first);
      all.emplace_back(-clusters / (limits.first + averaging), std::move(component));
    }
    std::ranges::stable_sort(all, {}, &std::pair<double, Component>::first);
    std::vector<Component> best;
    for (std::size_t i = 0; i < std::min(kSetsJudged, all.size()); ++i)
      best.push_back(std::move(all[i].second));
    return best;
  }

  // Kruskal: every region, and what each way in turn connects.
  std::vector<Component> components(const std::vector<Packed>& packed, double ring_bytes) const {
    double clusters = 1;
    std::vector<Component> all;
    std::vector<std::size_t> of_region;  // its component
    for (std::size_t region = 0; region < packed.size(); ++region) {
      clusters += static_cast<double>(packed[region].clusters.size());
      of_region.push_back(all.size());
      all.push_back({.regions = {region}});
    }
    std::vector<std::tuple<double, std::size_t, std::size_t>> ways;
    for (std::size_t a = 0; a < packed.size(); ++a) {
      for (std::size_t b = a + 1; b < packed.size(); ++b) {
        if (packed[a].clusters.empty() || packed[b].clusters.empty()) continue;
        const CutWay way = way_between(packed[a], packed[b]);
        ways.emplace_back(way.latency + ring_bytes / clusters / way.bytes_per_second, a, b);
      }
    }
    std::ranges::sort(ways);
    for (const auto& [seconds, a, b] : ways) {
      if (of_region[a] == of_region[b]) continue;
      Component both = all[of_region[a]];
      const Component& other = all[of_region[b]];
      const CutWay way = way_between(packed[a], packed[b]);
      both.regions.insert(both.regions.end(), other.regions.begin(), other.regions.end());
      both.latency = std::max({both.latency, other.latency, way.latency});
      both.bytes_per_second = std::min({both.bytes_per_second, other.bytes_per_second, way.bytes_per_second});
      for (const std::size_t region : both.regions) of_region[region] = all.size();
      all.push_back(std::move(both));
    }
    return all;
  }

  CutWay way_between(const Packed& a, const Packed& b) const {
    return model_.way(a.clusters.front().front(), b.clusters.front().front());
  }

  // The clusters of these regions, and their nodes that are left, the fastest first.
  Packed together(const std::vector<Packed>& packed, const Component& component) const {
    Packed all;
    for (const std::size_t region : component.regions) {
      const Packed& own = packed[region];
      all.clusters.insert(all.clusters.end(), own.clusters.begin(), own.clusters.end());
      all.rest.insert(all.rest.end(), own.rest.begin(), own.rest.end());
    }
    std::ranges::stable_sort(all.rest, {}, [&](int node) { return -model_.flops_per_second(node); });
    return all;
  }

  Grouping grouping_of(Clusters clusters) const {
    Grouping grouping{.clusters = std::move(clusters), .left_out = {}};
    const std::optional<int> wanted = objective_.constraints().clusters;
    if (wanted && std::ssize(grouping.clusters) > *wanted) grouping.clusters.resize(*wanted);
    std::vector<bool> used(model_.nodes(), false);
    for (const std::vector<int>& cluster : grouping.clusters) {
      for (const int node : cluster) used[node] = true;
    }
    for (int node = 0; node < model_.nodes(); ++node) {
      if (!used[node]) grouping.left_out.push_back(node);
    }
    return connected(model_, std::move(grouping));
  }

  const ThroughputModel& model_;  // all three outlive the packer: it lives in packed_groupings()
  const ClusterObjective& objective_;
  const TimeLimit& limit_;
  std::vector<std::vector<int>> regions_;  // nodes, the fastest first
  Limits shortest_{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  Limits longest_{0, 0};
  std::vector<std::pair<Limits, Individual>> found_;  // the best first
};

}  // namespace

std::vector<Grouping> packed_groupings(const ThroughputModel& model, const ClusterObjective& objective,
                                       int threads, const TimeLimit& limit) {
  return Packer(model, objective, limit).run(threads);
}

}  // namespace rookery
