// A model's graph as TensorBoard draws it: TensorFlow's GraphDef.
#pragma once

#include <functional>
#include <string>

#include "models/graph/graph.hpp"

namespace rookery {

// Its bytes, the same for the same graph. A node is an op, an input or a parameter, buffer or constant, and
// has the shapes of what it makes, with -1 for a dimension that follows the micro-batch. Names are those of
// the graph, with the modules of PyTorch as groups: "layer1.0.conv1.weight" is layer1/0/conv1/weight.
// `device_of` says which device an op belongs to, by which TensorBoard colors; what an op alone uses is with
// it.
std::string graph_def(const Graph& graph, const std::function<std::string(const Op&)>& device_of);

}  // namespace rookery
