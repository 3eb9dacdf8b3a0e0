// Relu and Identity (https://onnx.ai/onnx/operators/), and Detach and Copy, which are our own.
#include "models/base/error.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/families.hpp"
#include "models/graph/ops/rules.hpp"

namespace rookery {
namespace {

std::vector<TensorType> infer_same(const Op&, std::span<const TensorType> inputs) {
  if (inputs.empty()) throw ConfigError("needs an input");
  return {inputs[0]};
}

std::vector<TensorType> infer_relu(const Op&, std::span<const TensorType> inputs) {
  if (inputs.size() != 1 || inputs[0].dtype != DType::kF32) throw ConfigError("needs one input, of f32");
  return {inputs[0]};
}

void differentiate_relu(GradientBuilder& builder, const Op& op) {
  std::vector<ValueId> inputs = builder.relu_gradient_inputs(op.outputs[0]);
  if (inputs.empty()) return;
  builder.add(builder.phase_for(op.inputs[0]), op, "ReluGrad", std::move(inputs), {op.inputs[0]});
}

void differentiate_identity(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  builder.add(Phase::kBackwardInputs, op, "Identity", {dy}, {op.inputs[0]});
}

}  // namespace

std::vector<OpDefinition> elementwise_ops() {
  return {
      {.type = "Relu",
       .description = "(X) -> Y",
       .signature = OpSignature{},
       .infer = infer_relu,
       .differentiate = differentiate_relu,
       .in_place = {0},
       .images = {0}},
      {.type = "ReluGrad",
       .description = "(dY, Y, dY'?) -> dX: of the gradient dY + dY' where there are two",
       .in_place = {0, 1, 2}},
      {.type = "Identity",
       .description =
           "(X) -> Y: a view. It is its own gradient operator, and that of other ops whose derivative "
           "is 1: (dY) -> dX",
       .signature = OpSignature{.any_type = true},
       .infer = infer_same,
       .differentiate = differentiate_identity,
       .is_view = always_view},
      {.type = "Detach",
       .description = "(X) -> Y: X, a view that no gradient goes through",
       .infer = infer_same,
       .is_view = always_view},
      {.type = "Copy",
       .description = "(dW) -> dW: the gradient of a parameter, where a view would be one of other memory"},
  };
}

}  // namespace rookery
