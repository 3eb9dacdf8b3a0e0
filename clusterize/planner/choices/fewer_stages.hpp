// Warns of a plan whose machines have several stages where they should have one.
#pragma once

#include <optional>
#include <string>

#include "clusterize/costs/planned.hpp"
#include "clusterize/costs/training_task.hpp"
#include "clusterize/pool/node_pool.hpp"
#include "clusterize/search/search.hpp"

namespace rookery {

// Where the schedule that is most alike with one stage on each machine trains more samples a second, as
// simulated, which most often is where links are slow: both rates. Plans once more for that, and so says
// nothing where the time for planning is limited. `planned`: made of the other three.
std::optional<std::string> fewer_stages(const TrainingTask& task, const NodePool& pool,
                                        const SearchOptions& options, const Planned& planned);

}  // namespace rookery
