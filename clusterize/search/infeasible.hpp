// A job for which there is no plan is infeasible; the message says why.
#pragma once

#include "clusterize/search/search.hpp"

namespace rookery {

// Throws a ConfigError that says which of memory and constraints cannot be met, with numbers, and what
// would make it possible.
[[noreturn]] void throw_infeasible(const ThroughputModel& model, const SearchOptions& options);

}  // namespace rookery
