#include "clusterize/costs/node_equivalence.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace rookery {
namespace {

// Of two nodes that are alike in themselves.
bool have_the_same_links(const NodePool& pool, int a, int b) {
  for (int other = 0; other < pool.size(); ++other) {
    if (other != a && other != b && pool.link(a, other) != pool.link(b, other)) return false;
  }
  return true;
}

}  // namespace

std::vector<int> node_equivalence(const NodePool& pool, const std::set<int>& special) {
  std::map<std::tuple<double, double, double, double, int, bool>, std::vector<int>> firsts;  // of nodes alike
  std::vector<int> classes;
  for (int node = 0; node < pool.size(); ++node) {
    if (special.contains(node)) {
      classes.push_back(node);
      continue;
    }
    const PoolNode& of = pool.node(node);
    std::vector<int>& alike = firsts[{of.ram_gb, of.bandwidth_mbps, of.gflops.value_or(0),
                                      of.transfer_gbps.value_or(0), pool.threads(node), of.reachable}];
    const auto same =
        std::ranges::find_if(alike, [&](int first) { return have_the_same_links(pool, first, node); });
    classes.push_back(same == alike.end() ? node : *same);
    if (same == alike.end()) alike.push_back(node);
  }
  return classes;
}

}  // namespace rookery
