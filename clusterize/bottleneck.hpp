// What holds a plan's slowest cluster up the most, by the cost model.
#pragma once

#include <string>

#include "clusterize/planner.hpp"

namespace rookery {

struct Bottleneck {
  enum class Kind : std::uint8_t { kNode, kLink, kConnection, kUpdate, kExchange, kAveraging };
  Kind kind = Kind::kNode;
  int cluster = 0;
  int stage = 0;       // kLink: from it to the next one
  double seconds = 0;  // of the step and the averaging behind it
  double share = 0;    // of them
  std::string text;    // with its numbers
};

const char* name_of(Bottleneck::Kind kind);

// `pool` and `costs` are those of the plan. All but one of the micro-batches wait for what sets the period;
// where that is how many may be in flight, for everything on the round trip alike.
Bottleneck find_bottleneck(const NodePool& pool, const ModelCosts& costs, const Planned& planned);

}  // namespace rookery
