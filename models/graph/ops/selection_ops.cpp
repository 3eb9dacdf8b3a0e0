// Comparisons, logic, and what chooses between operands element by element, with broadcasting
// (https://onnx.ai/onnx/operators/): Equal, Less, LessOrEqual, Greater, GreaterOrEqual, And, Or, Not, Where,
// Min, Max; and Cast.

#include <algorithm>
#include <iterator>
#include <optional>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/broadcast.hpp"
#include "models/graph/ops/families.hpp"
#include "models/tensor/dtype_named.hpp"

namespace rookery {
namespace {

using Types = std::vector<TensorType>;

Types infer_comparison(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.size() != 2 || inputs[0].dtype != inputs[1].dtype)
    throw ConfigError("needs two inputs of one type");
  if (op.type != "Equal" && inputs[0].dtype == DType::kBool) throw ConfigError("bools have no order");
  return {{DType::kBool, broadcast(inputs[0].shape, inputs[1].shape)}};
}

Types infer_logic(const Op&, std::span<const TensorType> inputs) {
  if (inputs.size() != 2 || inputs[0].dtype != DType::kBool || inputs[1].dtype != DType::kBool)
    throw ConfigError("needs two inputs, of bool");
  return {{DType::kBool, broadcast(inputs[0].shape, inputs[1].shape)}};
}

Types infer_not(const Op&, std::span<const TensorType> inputs) {
  if (inputs.size() != 1 || inputs[0].dtype != DType::kBool) throw ConfigError("needs one input, of bool");
  return {inputs[0]};
}

Types infer_where(const Op&, std::span<const TensorType> inputs) {
  if (inputs.size() != 3 || inputs[0].dtype != DType::kBool || inputs[1].dtype != inputs[2].dtype)
    throw ConfigError("needs a condition of bool and two inputs of one type");
  return {{inputs[1].dtype, broadcast(broadcast(inputs[0].shape, inputs[1].shape), inputs[2].shape)}};
}

void differentiate_where(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  // The last input first, as everywhere where gradients are summed.
  for (const auto& [input, type] : {std::pair{2, "WhereGradRight"}, std::pair{1, "WhereGradLeft"}}) {
    const ValueId target = op.inputs[input];
    builder.add(builder.phase_for(target), op, type, {dy, op.inputs[0]}, {target});
  }
}

Types infer_extremum(const Op&, std::span<const TensorType> inputs) {
  if (inputs.empty()) throw ConfigError("needs an input");
  Shape shape = inputs[0].shape;
  for (const TensorType& input : inputs) {
    if (input.dtype != inputs[0].dtype || input.dtype == DType::kBool || input.dtype == DType::kU8)
      throw ConfigError("needs inputs of one type, of f32, f64, i64 or i32");
    shape = broadcast(shape, input.shape);
  }
  return {{inputs[0].dtype, shape}};
}

void differentiate_extremum(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  for (std::size_t i = op.inputs.size(); i-- > 0;) {
    Op forward = op;
    forward.attributes["input"] = static_cast<std::int64_t>(i);
    std::vector<ValueId> inputs{dy, op.outputs[0]};
    inputs.insert(inputs.end(), op.inputs.begin(), op.inputs.end());
    builder.add(builder.phase_for(op.inputs[i]), forward, "ExtremumGrad", inputs, {op.inputs[i]});
  }
}

Types infer_cast(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.size() != 1) throw ConfigError("needs one input");
  const std::string name = op.text("to", "");
  const std::optional<DType> to = dtype_named(name);
  if (!to) throw ConfigError(fmt::format("there is no type '{}' to cast to", name));
  return {{*to, inputs[0].shape}};
}

void differentiate_cast(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  builder.add(builder.phase_for(op.inputs[0]), op, "CastGrad", {dy}, {op.inputs[0]});
}

}  // namespace

std::vector<OpDefinition> selection_ops() {
  const OpSignature of_two{.inputs = {2, 2}, .any_type = true};
  std::vector<OpDefinition> definitions;
  for (const char* type : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or"}) {
    const bool is_logic = type == std::string("And") || type == std::string("Or");
    definitions.push_back({.type = type,
                           .description = "(A, B) -> Y",
                           .signature = of_two,
                           .infer = is_logic ? infer_logic : infer_comparison});
  }
  for (const char* type : {"Min", "Max"}) {
    definitions.push_back({.type = type,
                           .description = "(X…) -> Y",
                           .signature = OpSignature{.inputs = {1, kManyTensors}, .any_type = true},
                           .infer = infer_extremum,
                           .differentiate = differentiate_extremum});
  }
  std::vector<OpDefinition> others{
      {.type = "ExtremumGrad",
       .description =
           "(dY, Y, X…) -> dX: the gradient of the input number `input` of Min or Max. Inputs that are equal "
           "to Y have equal shares of dY, as PyTorch's maximum and amax"},
      {.type = "Not",
       .description = "(X) -> Y",
       .signature = OpSignature{.any_type = true},
       .infer = infer_not},
      {.type = "Where",
       .description = "(condition, A, B) -> Y",
       .signature = OpSignature{.inputs = {3, 3}, .any_type = true},
       .infer = infer_where,
       .differentiate = differentiate_where},
      {.type = "WhereGradLeft", .description = "(dY, condition) -> dA"},
      {.type = "WhereGradRight", .description = "(dY, condition) -> dB"},
      {.type = "Cast",
       .description = "(X) -> Y: the attribute `to` is the name of a dtype, \"f32\"",
       .signature = OpSignature{.attributes = {{"to", AttributeKind::kType}}, .any_type = true},
       .infer = infer_cast,
       .differentiate = differentiate_cast},
      {.type = "CastGrad", .description = "(dY) -> dX"},
  };
  std::ranges::move(others, std::back_inserter(definitions));
  return definitions;
}

}  // namespace rookery
