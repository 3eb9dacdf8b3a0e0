#include "clusterize/search/seeds.hpp"

#include <algorithm>
#include <numeric>

#include "clusterize/order/connected.hpp"
#include "models/base/parallel.hpp"

namespace rookery {
namespace {

constexpr int kRandom = 40;
constexpr std::size_t kMostAlone = 64;
constexpr std::size_t kNearestTried = 2000;     // of the nodes next to each other in a large pool
constexpr std::size_t kNodesOfSeeds = 100'000;  // in all of them together
constexpr std::size_t kFewSeeds = 40;           // however many nodes there are

class Seeder {
 public:
  Seeder(const ThroughputModel& model, const Constraints& constraints)
      : model_(model), constraints_(constraints) {
    ids_.resize(model.nodes());
    std::iota(ids_.begin(), ids_.end(), 0);
    const auto& nodes = model.pool().nodes();
    const auto node = [&nodes](int id) -> const PoolNode& { return nodes[id]; };
    const auto sorted = [&](const auto& key) {
      std::vector<int> order = ids_;
      std::ranges::stable_sort(order, {}, key);
      return order;
    };
    orders_.push_back(ids_);
    orders_.push_back(sorted([&](int id) { return -node(id).ram_gb; }));
    orders_.push_back(sorted([&](int id) { return -node(id).bandwidth_mbps; }));
    orders_.push_back(sorted([&](int id) { return -model.flops_per_second(id); }));
    std::vector<int> by_region = orders_.back();
    std::ranges::stable_sort(by_region, {}, [&](int id) -> const std::string& { return node(id).region; });
    orders_.push_back(by_region);
    orders_.push_back(nearest_first());
  }

  std::vector<Grouping> seeds(RngKey key) {
    for (const std::vector<int>& order : orders_) {
      for (const int clusters : {most_clusters(), constraints_.clusters.value_or(1)})
        add_dealt(order, clusters);
    }
    const std::size_t first = seeds_.size();
    for (const std::vector<int>& order : orders_) {
      for (int clusters = 1; clusters <= model_.nodes(); clusters += 1 + clusters / 8)
        add_dealt(order, clusters);
      add_filled(order);
    }
    add_alone();
    add_regions();
    for (int i = 0; i < kRandom; ++i) add_random(key, static_cast<std::uint64_t>(i));
    thin_out(first);
    return std::move(seeds_);
  }

 private:
  int most_clusters() const { return std::max(1, model_.nodes() / constraints_.min_nodes); }

  // With all other nodes left out.
  void add(Grouping grouping) {
    std::vector<bool> used(ids_.size(), false);
    for (const std::vector<int>& cluster : grouping.clusters) {
      for (const int node : cluster) used[node] = true;
    }
    for (const int node : ids_) {
      if (!used[node]) grouping.left_out.push_back(node);
    }
    seeds_.push_back(connected(model_, std::move(grouping)));
  }

  void add_dealt(const std::vector<int>& order, int clusters) {
    add(deal(order, clusters));
    add(deal(spread(order, static_cast<std::size_t>(clusters)), clusters));
  }

  // In a large pool a few of those from `first` on are enough: each takes long to arrange.
  void thin_out(std::size_t first) {
    const std::size_t most = std::max(kFewSeeds, kNodesOfSeeds / ids_.size());
    const std::size_t count = seeds_.size() - first;
    if (count <= most) return;
    for (std::size_t i = 0; i < most; ++i) seeds_[first + i] = std::move(seeds_[first + i * count / most]);
    seeds_.resize(first + most);
  }

  // Clusters that just hold the model: all of them, the first half, the first quarter, …
  void add_filled(const std::vector<int>& order) {
    for (const double slack : {1.0, 1.3}) {
      Grouping grouping{.clusters = {{}}};
      double memory = 0;
      for (const int node : order) {
        grouping.clusters.back().push_back(node);
        memory += model_.ram_bytes(node);
        if (memory < slack * model_.least_bytes() ||
            std::ssize(grouping.clusters.back()) < constraints_.min_nodes)
          continue;
        grouping.clusters.emplace_back();
        memory = 0;
      }
      grouping.clusters.pop_back();
      for (; !grouping.clusters.empty(); grouping.clusters.resize(grouping.clusters.size() / 2))
        add(grouping);
    }
  }

  void add_alone() {
    const std::vector<int>& fastest = orders_[3];
    for (std::size_t i = 0; i < std::min(kMostAlone, fastest.size()); ++i) add({.clusters = {{fastest[i]}}});
    std::vector<int> row;  // a pipeline of the fastest
    for (const int node : fastest) {
      if (std::ssize(row) == std::min(model_.costs().most_machines(), 16)) break;
      row.push_back(node);
      add({.clusters = {row}});
    }
  }

  // Within each region that holds them: the fastest nodes alone, and filled clusters.
  void add_regions() {
    std::map<std::string, std::vector<int>> regions;
    for (const int node : orders_[3]) regions[model_.pool().node(node).region].push_back(node);
    if (regions.size() < 2) return;
    constexpr std::size_t kMostRegionSeeds = 64;
    std::size_t left = kMostRegionSeeds;
    for (const auto& [name, nodes] : regions) {
      if (left-- == 0) break;
      add_filled(nodes);
    }
  }

  // Each node followed by the one that it exchanges the model with soonest, of those left.
  std::vector<int> nearest_first() const {
    std::vector<int> order = ids_;
    const double bytes = model_.sums().round_bytes.back();
    for (std::size_t i = 1; i < order.size(); ++i) {
      std::size_t nearest = i;
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t j = i; j < std::min(order.size(), i + kNearestTried); ++j) {
        const CutWay way = model_.way(order[i - 1], order[j]);
        const double seconds = way.latency + bytes / way.bytes_per_second;
        if (seconds >= least) continue;
        least = seconds;
        nearest = j;
      }
      std::swap(order[i], order[nearest]);
    }
    return order;
  }

  void add_random(RngKey key, std::uint64_t stream) {
    const std::vector<std::int64_t> order = random_permutation(model_.nodes(), key, 2 * stream);
    CounterRng rng(key, 2 * stream + 1);
    const int clusters = 1 + static_cast<int>(rng.next_below(static_cast<std::uint32_t>(most_clusters())));
    add(deal({order.begin(), order.end()}, clusters));
  }

  const ThroughputModel& model_;  // both outlive the seeder: it lives in structured_seeds()
  const Constraints& constraints_;
  std::vector<int> ids_;
  std::vector<std::vector<int>> orders_;
  std::vector<Grouping> seeds_;
};

}  // namespace

std::vector<Grouping> structured_seeds(const ThroughputModel& model, const ClusterObjective& objective,
                                       RngKey key, int threads, const TimeLimit& limit) {
  constexpr double kShare = 0.3;
  std::vector<Grouping> seeds = Seeder(model, objective.constraints()).seeds(key);
  std::vector<char> is_arranged(seeds.size(), 0);
  parallel_for(seeds.size(), threads, [&](std::size_t i) {
    if (i > 0 && limit.is_over(kShare)) return;
    for (std::vector<int>& cluster : seeds[i].clusters) objective.arrange(cluster);
    is_arranged[i] = 1;
  });
  std::vector<Grouping> arranged;
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    if (is_arranged[i] != 0) arranged.push_back(std::move(seeds[i]));
  }
  return arranged;
}

}  // namespace rookery
