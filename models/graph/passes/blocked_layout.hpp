// Images in blocks of channels (op_attributes.hpp), as fast convolutions want them. No model has these: this
// pass makes them when a stage is compiled.
#pragma once

#include <set>
#include <string>

#include "models/graph/graph.hpp"

namespace rookery {

// The same graph with `ops` in blocked layout and conversions where they meet others. Ops that know no
// blocked images (OpDefinition::images) stay as they are. Inputs, outputs and state keep
// names and types. `received`: values whose gradient partly arrives from other stages.
//
// Gradients are summed in the order of the plain graph: uses of a value share a conversion only where
// that changes no order.
Graph with_blocked_layout(const Graph& forward, const std::set<std::string>& ops,
                          const std::set<ValueId>& received);

}  // namespace rookery
