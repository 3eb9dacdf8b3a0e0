// MatMul (https://onnx.ai/onnx/operators/onnx__MatMul.html), which is numpy.matmul.

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/broadcast.hpp"
#include "models/graph/ops/families.hpp"

namespace rookery {
namespace {

// Its dimensions but the last two.
Shape batch_of(const Shape& shape) {
  return Shape(shape.dims().first(std::max(shape.rank() - 2, 0)));
}

// An operand of rank 1 is a row on the left, a column on the right, and its dimension of one is left out
// of the result.
std::vector<TensorType> infer_matmul(const Op&, std::span<const TensorType> inputs) {
  if (inputs.size() != 2 || inputs[0].dtype != DType::kF32 || inputs[1].dtype != DType::kF32)
    throw ConfigError("needs two inputs, of f32");
  const Shape& a = inputs[0].shape;
  const Shape& b = inputs[1].shape;
  if (a.rank() == 0 || b.rank() == 0) throw ConfigError("a scalar is no matrix: use Mul");
  const std::int64_t depth = b[b.rank() == 1 ? 0 : -2];
  if (a[-1] != depth) throw ConfigError(fmt::format("{} columns times {} rows", a[-1], depth));
  const Shape batch = broadcast(batch_of(a), batch_of(b));
  std::vector<std::int64_t> dims(batch.dims().begin(), batch.dims().end());
  if (a.rank() > 1) dims.push_back(a[-2]);
  if (b.rank() > 1) dims.push_back(b[-1]);
  return {{DType::kF32, Shape(dims)}};
}

void differentiate_matmul(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  const ValueId a = op.inputs[0];
  const ValueId b = op.inputs[1];
  builder.add(builder.phase_for(b), op, "MatMulGradRight", {dy, a}, {b});
  builder.add(builder.phase_for(a), op, "MatMulGradLeft", {dy, b}, {a});
}

// Every element of Y takes part in `depth` products, forward and backward.
double product_flops(const Shape& y, std::int64_t depth) {
  return 2.0 * static_cast<double>(y.elements()) * static_cast<double>(depth);
}

double matmul_flops(const Op&, std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  return product_flops(outputs[0].shape, inputs[0].shape[-1]);
}

double left_flops(const Op&, std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  return product_flops(inputs[0].shape, outputs[0].shape[-1]);
}

double right_flops(const Op&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  return product_flops(inputs[0].shape, inputs[1].shape[-1]);
}

}  // namespace

std::vector<OpDefinition> matmul_ops() {
  return {
      {.type = "MatMul",
       .description = "(A, B) -> Y",
       .signature = OpSignature{.inputs = {2, 2}},
       .infer = infer_matmul,
       .differentiate = differentiate_matmul,
       .flops = matmul_flops},
      {.type = "MatMulGradLeft",
       .description = "(dY, B) -> dA: summed where A was repeated",
       .flops = left_flops},
      {.type = "MatMulGradRight",
       .description = "(dY, A) -> dB: summed where B was repeated",
       .flops = right_flops},
  };
}

}  // namespace rookery
