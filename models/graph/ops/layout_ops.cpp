// ToBlocked and FromBlocked: images from one layout to the other, each the gradient of the other.
#include "models/base/error.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/op_attributes.hpp"
#include "models/graph/ops/families.hpp"

namespace rookery {
namespace {

void differentiate_conversion(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  const char* reverse = op.type == "ToBlocked" ? "FromBlocked" : "ToBlocked";
  builder.add(builder.phase_for(op.inputs[0]), op, reverse, {dy}, {op.inputs[0]});
}

OpDefinition conversion(const char* type, const char* description, Shape (*convert)(const Shape&)) {
  return {.type = type,
          .description = description,
          .infer = [convert](const Op&, std::span<const TensorType> inputs) -> std::vector<TensorType> {
            if (inputs.size() != 1 || inputs[0].dtype != DType::kF32)
              throw ConfigError("needs an input of f32");
            return {{DType::kF32, convert(inputs[0].shape)}};
          },
          .differentiate = differentiate_conversion};
}

}  // namespace

std::vector<OpDefinition> layout_ops() {
  return {
      conversion("ToBlocked", "(X) -> Y: f32[n, c, h, w] as f32[n, c / 16, h, w, 16]", blocked_shape),
      conversion("FromBlocked", "(X) -> Y: f32[n, c / 16, h, w, 16] as f32[n, c, h, w]", plain_shape),
  };
}

}  // namespace rookery
