#include "clusterize/costs/node_equivalence.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace rookery {
namespace {

// Of two nodes that are alike in themselves.
bool have_the_same_links(const NodePool& pool, std::size_t a, std::size_t b) {
  for (std::size_t other = 0; other < pool.nodes().size(); ++other) {
    if (other != a && other != b && pool.link(a, other) != pool.link(b, other)) return false;
  }
  return true;
}

}  // namespace

std::vector<int> node_equivalence(const NodePool& pool, const std::set<int>& special) {
  std::map<std::tuple<double, double, double, double, bool>, std::vector<std::size_t>>
      firsts;  // of nodes alike
  std::vector<int> classes;
  for (std::size_t node = 0; node < pool.nodes().size(); ++node) {
    if (special.contains(static_cast<int>(node))) {
      classes.push_back(static_cast<int>(node));
      continue;
    }
    const PoolNode& of = pool.nodes()[node];
    std::vector<std::size_t>& alike = firsts[{of.ram_gb, of.bandwidth_mbps, of.gflops.value_or(0),
                                              of.transfer_gbps.value_or(0), of.reachable}];
    const auto same = std::ranges::find_if(
        alike, [&](std::size_t first) { return have_the_same_links(pool, first, node); });
    classes.push_back(static_cast<int>(same == alike.end() ? node : *same));
    if (same == alike.end()) alike.push_back(node);
  }
  return classes;
}

}  // namespace rookery
