// Fusion: an activation becomes part of the op whose output it maps, which saves a pass over memory and
// a value. Results keep their bits, so that it makes no difference where a cut lies between the two.
#pragma once

#include "models/graph/graph.hpp"

namespace rookery {

// Attributes of an op that applies max(x, 0) to its output 0, and of which op that was.
constexpr const char* kActivation = "activation";       // "relu"
constexpr const char* kActivationOp = "activation_op";  // name of the Relu

// Add, BatchNormalization, Conv or Gemm followed by a Relu that alone reads its output become one op with
// the name of the first and the output of the second. `forward` has inference form.
Graph fuse(const Graph& forward);

bool has_activation(const Op& op);

}  // namespace rookery
