// Gemm (https://onnx.ai/onnx/operators/onnx__Gemm.html).

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/families.hpp"

namespace rookery {
namespace {

std::vector<TensorType> infer_gemm(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.size() < 2) throw ConfigError("needs two matrices");
  const Shape& a = inputs[0].shape;
  const Shape& b = inputs[1].shape;
  if (a.rank() != 2 || b.rank() != 2) throw ConfigError("needs two matrices");
  const bool transpose_a = op.integer("transA", 0) != 0;
  const bool transpose_b = op.integer("transB", 0) != 0;
  const std::int64_t m = a[transpose_a ? 1 : 0];
  const std::int64_t k = a[transpose_a ? 0 : 1];
  const std::int64_t n = b[transpose_b ? 0 : 1];
  if (b[transpose_b ? 1 : 0] != k) {
    throw ConfigError(fmt::format("{} columns times {} rows", k, b[transpose_b ? 1 : 0]));
  }
  if (inputs.size() > 2 && op.inputs[2] != kNoValue && inputs[2] != TensorType{DType::kF32, {n}}) {
    throw ConfigError(fmt::format("its third input must be f32[{}]", n));
  }
  return {{DType::kF32, {m, n}}};
}

void differentiate_gemm(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_before_activation(op);
  if (dy == kNoValue) return;
  builder.add(Phase::kBackwardInputs, op, "GemmGradInput", {dy, op.inputs[1]}, {op.inputs[0]});
  const ValueId bias = op.inputs.size() > 2 ? op.inputs[2] : kNoValue;
  const std::vector<ValueId> weights{op.inputs[1], bias};
  builder.add(builder.phase_for(weights), op, "GemmGradWeight", {dy, op.inputs[0]}, weights);
}

// Each product multiplies dY or Y [m, n] with k numbers an element.
double gemm_flops(const Op& op, std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  const Shape& a = inputs[0].shape;
  return 2.0 * static_cast<double>(outputs[0].shape.elements()) *
         static_cast<double>(a[op.integer("transA", 0) != 0 ? 0 : 1]);
}

double gemm_grad_input_flops(const Op&, std::span<const TensorType> inputs,
                             std::span<const TensorType> outputs) {
  return 2.0 * static_cast<double>(outputs[0].shape.elements()) * static_cast<double>(inputs[0].shape[1]);
}

double gemm_grad_weight_flops(const Op&, std::span<const TensorType> inputs,
                              std::span<const TensorType> outputs) {
  return 2.0 * static_cast<double>(outputs[0].shape.elements()) * static_cast<double>(inputs[0].shape[0]);
}

}  // namespace

std::vector<OpDefinition> gemm_ops() {
  using enum AttributeKind;
  return {
      {.type = "Gemm",
       .description = "(A, B, C?) -> Y",
       .signature =
           OpSignature{
               .inputs = {2, 3},
               .attributes = {{"alpha", kFloat}, {"beta", kFloat}, {"transA", kInt}, {"transB", kInt}}},
       .infer = infer_gemm,
       .differentiate = differentiate_gemm,
       .flops = gemm_flops},
      {.type = "GemmGradInput", .description = "(dY, B) -> dA", .flops = gemm_grad_input_flops},
      {.type = "GemmGradWeight", .description = "(dY, A) -> dB, dC", .flops = gemm_grad_weight_flops},
  };
}

}  // namespace rookery
