// Divides a model into parts that clusters average one after the other.
#pragma once

#include <map>
#include <string>

#include "models/graph/graph.hpp"

namespace rookery {

// By name of what clusters average: its fragment, from 0 to `fragments` - 1. Fragments have nearly the same
// number of bytes, each from all over the model, so that no node has most of one. A function of the model,
// whatever its cuts.
std::map<std::string, int> fragments_of(const Graph& graph, int fragments);

}  // namespace rookery
