// Softmax and LogSoftmax (https://onnx.ai/onnx/operators/).

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/families.hpp"

namespace rookery {
namespace {

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

}  // namespace

std::vector<OpDefinition> softmax_ops() {
  using enum AttributeKind;
  return {
      {.type = "Softmax",
       .description = "(X) -> Y",
       .signature = OpSignature{.attributes = {{"axis", kInt}}},
       .infer = infer_softmax,
       .differentiate = differentiate_softmax,
       .flops = softmax_flops,
       .in_place = {0}},
      // Along a line whose dY is 0 it is 0, even where Y is NaN.
      {.type = "SoftmaxGrad", .description = "(dY, Y) -> dX", .in_place = {0, 1}},
      {.type = "LogSoftmax",
       .description = "(X) -> Y",
       .signature = OpSignature{.attributes = {{"axis", kInt}}},
       .infer = infer_softmax,
       .differentiate = differentiate_softmax,
       .flops = softmax_flops,
       .in_place = {0}},
      {.type = "LogSoftmaxGrad", .description = "(dY, Y) -> dX", .flops = softmax_flops, .in_place = {0, 1}},
  };
}

}  // namespace rookery
