#include "clusterize/canonical.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace rookery {

Grouping canonical(const CostModel& model, const Grouping& grouping) {
  const auto kind = [&](int node) { return model.kind(node); };
  std::map<int, std::set<int>> free;  // nodes by kind
  for (int node = 0; node < model.nodes(); ++node) free[kind(node)].insert(node);

  Grouping result = grouping;
  for (std::vector<int>& cluster : result.clusters) std::ranges::transform(cluster, cluster.begin(), kind);
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
