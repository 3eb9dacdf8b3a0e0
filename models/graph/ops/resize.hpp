// ONNX's Resize (https://onnx.ai/onnx/operators/onnx__Resize.html) resolved to numbers: which elements of
// the input each element of the output is made of.
#pragma once

#include <cstdint>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

// Element `low` times (1 - weight) plus element `high` times weight.
struct Sample {
  std::int64_t low = 0;
  std::int64_t high = 0;
  float weight = 0;
};

// Elements of an axis of `size` after resizing it; not finite or not in range where the scale is not.
double resized(std::int64_t size, float scale);

// The result of resizing an image [n, c, width] or [n, c, height, width]: its attribute `scales` has a number
// for every axis, 1 for the first two. ConfigError where attributes are unknown or out of range.
Shape resized_shape(const Op& op, const Shape& shape);

// By element of the output along `axis`. `op` is the Resize or its gradient; sizes of the axis before and
// after.
std::vector<Sample> samples_along(const Op& op, int axis, std::int64_t from, std::int64_t to);

}  // namespace rookery
