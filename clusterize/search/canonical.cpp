#include "clusterize/search/canonical.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace rookery {

Grouping canonical(const ThroughputModel& model, const Grouping& grouping) {
  const auto node_class = [&](int node) { return model.node_class(node); };
  std::map<int, std::set<int>> free;  // nodes by class
  for (int node = 0; node < model.nodes(); ++node) free[node_class(node)].insert(node);

  Grouping result = grouping;
  for (std::vector<int>& cluster : result.clusters)
    std::ranges::transform(cluster, cluster.begin(), node_class);
  std::ranges::sort(result.clusters);
  for (std::vector<int>& cluster : result.clusters) {
    for (int& node : cluster) node = free[node].extract(free[node].begin()).value();
  }
  std::ranges::sort(result.clusters);
  result.left_out.clear();
  for (const auto& [first, nodes] : free)
    result.left_out.insert(result.left_out.end(), nodes.begin(), nodes.end());
  std::ranges::sort(result.left_out);
  return result;
}

}  // namespace rookery
