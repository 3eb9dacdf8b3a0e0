// The clusters of a plan, or why there are none.
#pragma once

#include "clusterize/search/search.hpp"

namespace rookery {

// Clusters in the order of the rings; nodes that could change places without any effect in rising order of
// their ids. A function of its arguments alone where `seconds` does not end it. `model` was made with the
// pinned nodes as special ones. ConfigError with numbers, and what would help, when no grouping fits the
// memory and the constraints.
Grouping find_clusters(const ThroughputModel& model, const SearchOptions& options);

}  // namespace rookery
