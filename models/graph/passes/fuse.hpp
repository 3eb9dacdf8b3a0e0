// Fusion: an activation, or the sum with a shortcut, becomes part of the op whose output it maps, which saves
// a pass over memory and a value. Results keep their bits, so that it makes no difference where a cut lies
// between the two.
//
// A Relu before a MaxPool is moved behind it, where it has fewer elements to map, and what the pool reads
// need not be kept for the gradient. The largest of rectified numbers is the largest number rectified; where
// that is 0 no gradient passes in either order, and elsewhere the window's maximum lies at the same place.
#pragma once

#include "models/graph/graph.hpp"

namespace rookery {

// BatchNormalization followed by an Add of the same shape that alone reads its output, then Add,
// BatchNormalization, Conv or Gemm followed by a Relu that alone reads its output, become one op with the
// name of the first and the output of the second; and so do a Relu and the MaxPool that alone reads its
// output, with the name and the output of the MaxPool. `forward` has inference form.
Graph fuse(const Graph& forward);

}  // namespace rookery
