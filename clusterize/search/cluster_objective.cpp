#include "clusterize/search/cluster_objective.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rookery {

namespace {

// Of many nodes there are many clusters to try; those of the answer get more effort at the end of the search.
OrderEffort usual_effort(int nodes) {
  constexpr int kFewNodes = 8;
  OrderEffort effort;
  if (nodes > kFewNodes) effort.pushes /= 10;
  return effort;
}

}  // namespace

const char* name_of(Objective objective) {
  switch (objective) {
    case Objective::kSimilar:
      return "similar";
    case Objective::kThroughput:
      return "throughput";
    case Objective::kLatency:
      return "latency";
  }
  return "";
}

ClusterObjective::ClusterObjective(const ThroughputModel& model, Objective objective, Constraints constraints)
    : model_(model), objective_(objective), constraints_(std::move(constraints)), rings_(model) {
  constraints_.min_nodes = std::clamp(constraints_.min_nodes, 1, model.largest_cluster());
  if (objective == Objective::kLatency) constraints_.clusters = 1;
  for (const auto& [node, pin] : constraints_.pins) stages_[node] = pin.stage;
}

Score ClusterObjective::score(const Grouping& grouping) const {
  std::vector<PlacedCluster> clusters = model_.placed(grouping.clusters);
  if (const double wrong = violations(grouping, clusters); wrong > 0) return {wrong};
  double slowest = 0;
  double sum = 0;
  for (const PlacedCluster& cluster : clusters) {
    const double step = cluster.cost->cuts.front().step_seconds;
    slowest = std::max(slowest, step);
    sum += step;
  }
  const auto left_out = static_cast<double>(grouping.left_out.size());
  if (objective_ == Objective::kLatency) return {0, slowest, left_out};
  if (objective_ == Objective::kThroughput || !model_.apart().empty()) {
    order(clusters);
    const Throughput found = model_.throughput(clusters);
    if (const int wrong = model_.unconnected(clusters, found.cuts); wrong > 0)
      return {static_cast<double>(wrong)};
    if (objective_ == Objective::kThroughput) return {0, -found.samples_per_second, left_out, sum};
  }
  return {0, -static_cast<double>(grouping.clusters.size()), left_out, imbalance(grouping), slowest};
}

// How far away the grouping is from respecting everything.
double ClusterObjective::violations(const Grouping& grouping,
                                    const std::vector<PlacedCluster>& clusters) const {
  const auto count = static_cast<double>(clusters.size());
  double sum = count == 0 ? 1e9 : 0;
  for (const PlacedCluster& cluster : clusters) {
    sum += std::max(0.0, constraints_.min_nodes - static_cast<double>(cluster.members->size()));
    sum += cluster.cost->shortfall;
  }
  if (constraints_.clusters) sum += 3 * std::abs(count - *constraints_.clusters);
  return sum + misplaced(grouping);
}

double ClusterObjective::misplaced(const Grouping& grouping) const {
  if (constraints_.pins.empty()) return 0;
  std::map<int, std::size_t> index_of;  // by number of a cluster
  std::map<std::size_t, int> number_of;
  double wrong = 0;
  std::size_t found = 0;
  for (std::size_t c = 0; c < grouping.clusters.size(); ++c) {
    for (std::size_t stage = 0; stage < grouping.clusters[c].size(); ++stage) {
      const auto pin = constraints_.pins.find(grouping.clusters[c][stage]);
      if (pin == constraints_.pins.end()) continue;
      ++found;
      wrong += std::abs(static_cast<double>(stage) - pin->second.stage);
      if (index_of.emplace(pin->second.cluster, c).first->second != c) ++wrong;
      if (number_of.emplace(c, pin->second.cluster).first->second != pin->second.cluster) ++wrong;
    }
  }
  for (const auto& [number, index] : index_of)
    wrong += std::max(0.0, number + 1.0 - static_cast<double>(grouping.clusters.size()));
  return wrong + 2 * static_cast<double>(constraints_.pins.size() - found);
}

// Sum of squared relative deviations of the clusters' RAM and bandwidth from their means; rounded,
// so that the order of the sums makes no difference.
double ClusterObjective::imbalance(const Grouping& grouping) const {
  double total = 0;
  for (const auto capability : {&PoolNode::ram_gb, &PoolNode::bandwidth_mbps}) {
    std::vector<double> sums;
    for (const std::vector<int>& members : grouping.clusters) {
      double sum = 0;
      for (const int node : members) sum += model_.pool().node(node).*capability;
      sums.push_back(sum);
    }
    const double mean = std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(sums.size());
    for (const double sum : sums) total += (sum / mean - 1) * (sum / mean - 1);
  }
  return std::round(total * 1e9) / 1e9;
}

void ClusterObjective::arrange(std::vector<int>& cluster) const {
  if (cluster.size() < 2) return;
  std::ranges::sort(cluster, {}, [&](int node) { return std::pair(model_.node_class(node), node); });
  std::vector<int> classes;
  for (const int node : cluster) classes.push_back(model_.node_class(node));
  const std::vector<int>& places = orders_.get(classes, [&] {
    std::vector<int> order = best_order(model_, cluster, stages_, usual_effort(model_.nodes()));
    for (int& node : order) node = static_cast<int>(std::ranges::find(cluster, node) - cluster.begin());
    return order;
  });
  std::vector<int> arranged;
  for (const int place : places) arranged.push_back(cluster[place]);
  cluster = std::move(arranged);
}

void ClusterObjective::order(std::vector<PlacedCluster>& clusters) const {
  rings_.arrange(clusters);
  for (const auto& [node, pin] : constraints_.pins) {
    const auto at = std::ranges::find_if(clusters, [&, pinned = node](const PlacedCluster& cluster) {
      return std::ranges::find(*cluster.members, pinned) != cluster.members->end();
    });
    if (at != clusters.end() && pin.cluster < std::ssize(clusters))
      std::iter_swap(at, clusters.begin() + pin.cluster);
  }
}

Clusters ClusterObjective::ordered(const Clusters& clusters) const {
  std::vector<PlacedCluster> placed = model_.placed(clusters);
  order(placed);
  Clusters result;
  for (const PlacedCluster& cluster : placed) result.push_back(*cluster.members);
  return result;
}

}  // namespace rookery
