// The elements that an op which moves elements takes of a tensor: ONNX's perm, axes, starts, ends, steps,
// pads and split resolved to numbers. ConfigError where they do not fit the shape.
#pragma once

#include <cstdint>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

// From 0 to rank - 1; a negative axis counts from the end.
int axis_of(std::int64_t axis, int rank);
// The same of several, which must be different ones.
std::vector<int> axes_of(const std::vector<std::int64_t>& axes, int rank);

// A shape of these dimensions whose elements can be counted.
Shape checked_shape(const std::vector<std::int64_t>& dims);
std::int64_t checked_product(std::int64_t a, std::int64_t b);

// The input's axis for every axis of the output of a Transpose.
std::vector<int> permutation_of(const Op& op, int rank);

// Elements start, start + step, … of an axis.
struct AxisRange {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t size = 0;
};

// The elements that a Slice takes, by axis.
std::vector<AxisRange> slice_of(const Op& op, const Shape& shape);

// The size of each of the `parts` of a Split along its axis, which has `size` elements.
std::vector<std::int64_t> split_of(const Op& op, std::int64_t size, std::size_t parts);

enum class PadMode : std::uint8_t { kConstant, kReflect, kEdge };

struct Padding {
  PadMode mode = PadMode::kConstant;
  std::vector<std::int64_t> begin, end;  // by axis; negative ones cut
};

Padding padding_of(const Op& op, const Shape& shape);

}  // namespace rookery
