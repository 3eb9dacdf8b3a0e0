// Relu, Softmax, LogSoftmax, Flatten and Identity (https://onnx.ai/onnx/operators/), and Detach and Copy,
// which are our own.
#include <fmt/format.h>

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
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  builder.add(builder.phase_for(op.inputs[0]), op, "ReluGrad", {dy, op.outputs[0]}, {op.inputs[0]});
}

std::vector<TensorType> infer_softmax(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.size() != 1 || inputs[0].dtype != DType::kF32) throw ConfigError("needs one input, of f32");
  const std::int64_t axis = op.integer("axis", -1);
  const int rank = inputs[0].shape.rank();
  if (axis < -rank || axis >= rank) throw ConfigError(fmt::format("axis {} of rank {}", axis, rank));
  return {inputs[0]};
}

// Softmax and LogSoftmax.
void differentiate_softmax(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  builder.add(builder.phase_for(op.inputs[0]), op, op.type + "Grad", {dy, op.outputs[0]}, {op.inputs[0]});
}

double softmax_flops(const Op&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  return 10.0 * static_cast<double>(inputs[0].shape.elements());
}

std::vector<TensorType> infer_flatten(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.empty()) throw ConfigError("needs an input");
  const Shape& shape = inputs[0].shape;
  std::int64_t axis = op.integer("axis", 1);
  if (axis < 0) axis += shape.rank();
  if (axis < 0 || axis > shape.rank())
    throw ConfigError(fmt::format("axis {} of rank {}", axis, shape.rank()));
  const auto rows = shape.dims().first(static_cast<std::size_t>(axis));
  const auto columns = shape.dims().subspan(static_cast<std::size_t>(axis));
  return {{inputs[0].dtype, {Shape(rows).elements(), Shape(columns).elements()}}};
}

void differentiate_flatten(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  builder.add(Phase::kBackwardInputs, op, "FlattenGrad", {dy}, {op.inputs[0]});
}

void differentiate_identity(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  builder.add(Phase::kBackwardInputs, op, "Identity", {dy}, {op.inputs[0]});
}

}  // namespace

std::vector<OpDefinition> elementwise_ops() {
  using enum AttributeKind;
  return {
      {.type = "Relu",
       .description = "(X) -> Y",
       .signature = OpSignature{},
       .infer = infer_relu,
       .differentiate = differentiate_relu,
       .in_place = {0},
       .images = OpDefinition::Images::kFirst},
      {.type = "ReluGrad", .description = "(dY, Y) -> dX", .in_place = {0, 1}},
      {.type = "Softmax",
       .description = "(X) -> Y",
       .signature = OpSignature{.attributes = {{"axis", kInt}}},
       .infer = infer_softmax,
       .differentiate = differentiate_softmax,
       .flops = softmax_flops,
       .in_place = {0}},
      {.type = "SoftmaxGrad", .description = "(dY, Y) -> dX", .in_place = {0, 1}},
      {.type = "LogSoftmax",
       .description = "(X) -> Y",
       .signature = OpSignature{.attributes = {{"axis", kInt}}},
       .infer = infer_softmax,
       .differentiate = differentiate_softmax,
       .flops = softmax_flops,
       .in_place = {0}},
      {.type = "LogSoftmaxGrad", .description = "(dY, Y) -> dX", .flops = softmax_flops, .in_place = {0, 1}},
      {.type = "Flatten",
       .description = "(X) -> Y: a view",
       .signature = OpSignature{.attributes = {{"axis", kInt}}, .any_type = true},
       .infer = infer_flatten,
       .differentiate = differentiate_flatten,
       .is_view = always_view},
      {.type = "FlattenGrad", .description = "(dY) -> dX: a view", .is_view = always_view},
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
