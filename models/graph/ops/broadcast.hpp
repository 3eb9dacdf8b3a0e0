// NumPy's broadcasting (https://onnx.ai/onnx/repo-docs/Broadcasting.html): shapes are aligned at their
// last dimension, and a dimension that is missing or 1 is repeated.
#pragma once

#include "models/tensor/tensor.hpp"

namespace rookery {

// The shape that operands of these shapes have together; ConfigError when they do not fit.
Shape broadcast(const Shape& a, const Shape& b);

}  // namespace rookery
