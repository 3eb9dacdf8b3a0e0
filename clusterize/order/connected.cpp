#include "clusterize/order/connected.hpp"

#include <algorithm>

namespace rookery {

Grouping connected(const ThroughputModel& model, Grouping grouping) {
  if (model.apart().empty()) return grouping;
  const auto is_apart = [&](int node) { return std::ranges::binary_search(model.apart(), node); };
  const auto has_one = [&](const std::vector<int>& cluster) {
    return std::ranges::any_of(cluster, is_apart);
  };
  for (std::vector<int>& cluster : grouping.clusters) {
    const auto first = std::ranges::find_if(cluster, is_apart);
    if (first == cluster.end()) continue;
    const auto others =
        std::stable_partition(first + 1, cluster.end(), [&](int node) { return !is_apart(node); });
    grouping.left_out.insert(grouping.left_out.end(), others, cluster.end());
    cluster.erase(others, cluster.end());
  }
  std::vector<std::vector<int>>& clusters = grouping.clusters;
  for (auto having = std::ranges::count_if(clusters, has_one);
       clusters.size() > 1 && 2 * having > std::ssize(clusters); --having) {
    const auto last = std::find_if(clusters.rbegin(), clusters.rend(), has_one);
    grouping.left_out.insert(grouping.left_out.end(), last->begin(), last->end());
    clusters.erase(std::next(last).base());
  }
  return grouping;
}

}  // namespace rookery
