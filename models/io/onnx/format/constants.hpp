// Tensors that ONNX's Constant, ConstantOfShape and Range make, when a file is read. Nothing that comes in is
// trusted: DataError for what makes no sense or more than kMaxOnnxBytes. Internal to this module.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

// The most elements that any value may have at a batch of one sample. Their bytes fit 64 bits with room to
// spare.
constexpr std::int64_t kMaxOnnxElements = std::int64_t{1} << 40;

// A dimension of a file; DataError unless it is from 1 to kMaxOnnxElements.
std::int64_t checked_dim(std::int64_t dim);

// A number as a scalar, a list as a tensor of rank 1; DataError for a text.
Tensor tensor_of(const Attribute& value);

// A tensor of these dimensions, full of one element; without one, of 0.0F.
Tensor repeated_constant(const std::vector<std::int64_t>& dims, std::optional<Tensor> element);

// i64 from range[0] up or down to range[1], which is left out, in steps of range[2].
Tensor range_constant(const std::vector<std::int64_t>& range);

}  // namespace rookery
