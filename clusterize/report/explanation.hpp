// Says why a plan is as fast as it is, and what would make it faster.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "clusterize/report/bottleneck.hpp"
#include "clusterize/search/search.hpp"

namespace rookery {

// "one more node like node_3"
struct WhatIf {
  std::string change;
  double samples_per_second = 0;  // at least: of the plan found in bounded time
  bool planned_anew = false;      // or the same clusters, cut anew, with the new node at its best place
};

struct Explanation {
  double samples_per_second = 0;
  double arithmetic_samples_per_second = 0;  // of all machines, without any waiting
  double reachable_samples_per_second = 0;   // no plan has more, see throughput_bound.hpp
  Bottleneck bottleneck;
  std::vector<WhatIf> what_if;
};

// Pools of up to so many nodes are planned anew for each what-if, for some seconds at most.
constexpr std::size_t kMostNodesPlannedAnew = 12;

// By the throughput model. `pool_document` is node_configs.json, of which the plan uses all nodes but
// `excluded`; `bottleneck` is what find_bottleneck() says of it.
Explanation explain(const Json& pool_document, const std::set<std::string>& excluded,
                    const SearchOptions& options, const Planned& planned, const Bottleneck& bottleneck);

std::string describe_explanation(const Explanation& explanation);
OrderedJson to_json(const Explanation& explanation);

}  // namespace rookery
