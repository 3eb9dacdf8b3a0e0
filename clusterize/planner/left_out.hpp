// Says why a node was left out: its memory is too small, or even the best plan with it that differs little
// from this one is worse.
#pragma once

#include <optional>
#include <string>

#include "clusterize/search/search.hpp"

namespace rookery {

// Where one more node would do best.
struct NodePosition {
  double samples_per_second = 0;  // of the plan with it
  double step_seconds = 0;        // with averaging
  int cluster = 0;                // as many as there are: one of its own
  int stage = 0;
  double averaging_seconds = 0;  // of these
  double work_seconds = 0;       // its own, of a micro-batch
  double transfer_seconds = 0;   // between it and its neighbours, there and back
};

// The best of all places in `clusters`, or in a cluster of its own where the options allow one, that memory
// and connections allow; at most `most` are tried. Nothing where there is none.
std::optional<NodePosition> best_position(const ThroughputModel& model, const SearchOptions& options,
                                          const Clusters& clusters, int node, std::int64_t most);

// The number of places that may be tried in a pool of so many nodes, so that it takes seconds.
std::int64_t positions_to_try(int nodes);

// Why nodes are left out of these clusters, in the order of `left_out`: too little memory for any piece of
// the model, or the best that could be done with the node, found by evaluating it; of very many kinds of
// nodes some are not examined. `now`: the plan's.
std::vector<std::string> reasons_to_leave_out(const ThroughputModel& model, const SearchOptions& options,
                                              const Clusters& clusters, const Throughput& now,
                                              const std::vector<int>& left_out);

}  // namespace rookery
