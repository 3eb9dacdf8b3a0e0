// Parameters and buffers by name, and whether they are those of a graph.
#pragma once

#include <map>
#include <string>

#include "models/graph/graph.hpp"

namespace rookery {

// Tensors by the global name of the parameter or buffer: how every module hands state around.
using StateDict = std::map<std::string, Tensor>;
// The same of tensors that somebody else owns.
using StateViews = std::map<std::string, ConstTensorView>;
StateViews views_of(const StateDict& state);

// Throws DataError listing every tensor of `graph` that `state` lacks, has with another type, or
// has too much, with the names that were perhaps meant.
void check_state(const Graph& graph, const StateDict& state);

// By second name, the name that the graph has: of tensors that the graph does not have and that are, bit for
// bit, one of its own. Several elements alike, such as fresh biases, are no sign of that.
std::map<std::string, std::string> second_names(const Graph& graph, const StateDict& state);

}  // namespace rookery
