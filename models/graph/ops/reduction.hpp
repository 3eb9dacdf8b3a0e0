// The shape that a reduction leaves.
#pragma once

#include "models/graph/graph.hpp"

namespace rookery {

// `x` with ones for the axes of the op's attribute, or for all where it is absent or empty. ConfigError
// when an axis is out of range or there twice.
Shape reduced_shape(const Op& op, const Shape& x);

}  // namespace rookery
