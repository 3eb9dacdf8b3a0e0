#include "clusterize/search/find_clusters.hpp"

#include <utility>

#include "clusterize/genetic/time_limit.hpp"

#include "clusterize/genetic/genetic_search.hpp"
#include "clusterize/search/infeasible.hpp"
#include "models/base/error.hpp"

namespace rookery {

Grouping find_clusters(const ThroughputModel& model, const SearchOptions& options) {
  const TimeLimit limit(options.seconds);
  std::optional<Grouping> found = search_clusters(model, options, usual_evaluations(model.nodes()));
  if (!found && limit.is_over(kBreedingEnds)) {
    throw ConfigError(
        "no plan that fits the machines' memory and the constraints was found in the time given: raise "
        "--time-limit, or leave it out");
  }
  if (!found && !options.explains) throw ConfigError("no plan fits memory and constraints");
  if (!found) throw_infeasible(model, options);
  return std::move(*found);
}

}  // namespace rookery
