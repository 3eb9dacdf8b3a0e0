#include "clusterize/canonical.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace rookery {
namespace {

// By node: the smallest node that it is interchangeable with.
std::vector<int> kinds_of(const CostModel& model) {
  std::vector<int> kinds;
  std::vector<int> firsts;
  for (int node = 0; node < model.nodes(); ++node) {
    const auto same =
        std::ranges::find_if(firsts, [&](int first) { return model.interchangeable(first, node); });
    kinds.push_back(same == firsts.end() ? node : *same);
    if (same == firsts.end()) firsts.push_back(node);
  }
  return kinds;
}

}  // namespace

Grouping canonical(const CostModel& model, const Grouping& grouping) {
  const std::vector<int> kinds = kinds_of(model);
  const auto kind = [&](int node) { return kinds[static_cast<std::size_t>(node)]; };
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
