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

// `forward` has inference form. These become one op:
//   - a BatchNormalization and the Add, of the same shape, that alone reads its output, in the place of the
//     Add, with the name of the first and the output of the second; where the Add adds two of them, the later
//     one;
//   - that, or another Add, BatchNormalization, Conv or Gemm, and the Relu that alone reads its output, in
//   the
//     place and with the name of the first and the output of the second;
//   - a Relu and the MaxPool that alone reads its output, with the name and the output of the MaxPool.
Graph fuse(const Graph& forward);

}  // namespace rookery
