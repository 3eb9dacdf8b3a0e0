// The bottleneck is what holds a plan's slowest cluster up the most, as its step is simulated.
#pragma once

#include <string>

#include "clusterize/costs/planned.hpp"
#include "clusterize/costs/training_task.hpp"
#include "clusterize/pool/node_pool.hpp"

namespace rookery {

struct Bottleneck {
  enum class Kind : std::uint8_t { kNode, kLink, kConnection, kUpdate, kExchange, kAveraging };
  Kind kind = Kind::kNode;
  int cluster = 0;
  // Of a machine with several stages the first, whichever of them it is about.
  int stage = 0;       // kNode, kUpdate, kConnection: whose; kLink: the earlier end
  int to_stage = 0;    // kLink: the later end
  double seconds = 0;  // of the step and the averaging behind it
  double share = 0;    // of them
  std::string text;    // with its numbers
};

const char* name_of(Bottleneck::Kind kind);

// Finds what most of the step's critical path (critical_path.hpp) goes through: a machine, with the update of
// its parameters (kUpdate where that is most of it) and what its stages pass to each other; a link; a
// connection, for what transfers take longer because they share it; what stages exchange when a step ends; or
// the averaging between clusters. `pool` is the plan's.
Bottleneck find_bottleneck(const TrainingTask& task, const NodePool& pool, const Planned& planned);

}  // namespace rookery
