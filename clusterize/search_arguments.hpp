// The arguments of clusterize that say what the search is to find.
#pragma once

#include <set>
#include <string>

#include "clusterize/search/search.hpp"
#include "models/base/process/program.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

void add_search_options(ProgramOptions& options);

// Ids of the nodes that no plan may use.
std::set<std::string> excluded_nodes(const ProgramArguments& arguments);

// Takes --max-staleness over. UsageError for a value out of range.
void take_staleness(const ProgramArguments& arguments, TrainingSettings& settings);

// UsageError for values out of range. Shows the best so far on standard error where that is a terminal.
SearchOptions search_options(const ProgramArguments& arguments, const NodePool& pool, std::uint64_t seed);

}  // namespace rookery
