// Functions of two numbers, element by element, with broadcasting (https://onnx.ai/onnx/operators/).

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/broadcast.hpp"
#include "models/graph/ops/families.hpp"

namespace rookery {
namespace {

// What the derivative by one operand is computed from: nothing where it is 1 or -1.
struct Slope {
  bool of_left = false;
  bool of_right = false;
  bool is_one = false;
};

struct Binary {
  const char* type;
  Slope left, right;
  const char* description;
  bool has_integers = false;  // it takes i64 and i32, too
};

const std::vector<Binary>& binary_table() {
  static const std::vector<Binary> table{
      {"Add", {.is_one = true}, {.is_one = true}, "(A, B) -> Y: A + B", true},
      {"Div", {.of_right = true}, {.of_left = true, .of_right = true}, "(A, B) -> Y: A / B", true},
      {"Mul", {.of_right = true}, {.of_left = true}, "(A, B) -> Y: A B", true},
      {"PRelu",
       {.of_left = true, .of_right = true},
       {.of_left = true},
       "(A, B) -> Y: A where it is not negative, else A B; B broadcasts to A"},
      {"Pow",
       {.of_left = true, .of_right = true},
       {.of_left = true, .of_right = true},
       "(A, B) -> Y: A to the power of B; 0 is taken as the derivative of a root by A at 0"},
      {"Sub", {.is_one = true}, {}, "(A, B) -> Y: A - B", true},
  };
  return table;
}

std::vector<TensorType> infer_binary(const Binary& binary, const Op& op, std::span<const TensorType> inputs) {
  const bool has_integers = binary.has_integers;
  const auto fits = [&](DType type) {
    return type == DType::kF32 || (has_integers && (type == DType::kI64 || type == DType::kI32));
  };
  if (inputs.size() != 2 || inputs[0].dtype != inputs[1].dtype || !fits(inputs[0].dtype))
    throw ConfigError(has_integers ? "needs two inputs of one type, of f32, i64 or i32"
                                   : "needs two inputs, of f32");
  const Shape shape = broadcast(inputs[0].shape, inputs[1].shape);
  if (op.type == "PRelu" && shape != inputs[0].shape) {
    throw ConfigError(fmt::format("a slope of {} does not broadcast to {}", inputs[1].shape.to_string(),
                                  inputs[0].shape.to_string()));
  }
  return {{inputs[0].dtype, shape}};
}

void differentiate_binary(const Binary& binary, GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_before_activation(op);
  if (dy == kNoValue) return;
  const auto add = [&](ValueId target, const Slope& slope, const char* side) {
    const Phase phase = builder.phase_for(target);
    // The gradient of a parameter has memory of its own.
    if (slope.is_one && phase == Phase::kBackwardInputs && builder.same_type(target, op.outputs[0])) {
      builder.add(phase, op, "Identity", {dy}, {target});
      return;
    }
    builder.add(phase, op, op.type + "Grad" + side,
                {dy, slope.of_left ? op.inputs[0] : kNoValue, slope.of_right ? op.inputs[1] : kNoValue},
                {target});
  };
  // The last input first, as everywhere where gradients are summed.
  add(op.inputs[1], binary.right, "Right");
  add(op.inputs[0], binary.left, "Left");
}

double gradient_flops(const Op&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  return 3.0 * static_cast<double>(inputs[0].shape.elements());
}

}  // namespace

std::vector<OpDefinition> binary_ops() {
  std::vector<OpDefinition> definitions;
  for (const Binary& binary : binary_table()) {
    definitions.push_back(
        {.type = binary.type,
         .description = binary.description,
         .signature = OpSignature{.inputs = {2, 2}, .any_type = binary.has_integers},
         .infer = [&binary](const Op& op, auto inputs) { return infer_binary(binary, op, inputs); },
         .differentiate = [&binary](GradientBuilder& builder,
                                    const Op& op) { differentiate_binary(binary, builder, op); },
         .in_place = {0, 1},
         .images =
             std::string(binary.type) == "Add" ? std::vector{kEveryInput} : std::vector<std::size_t>()});
    definitions.push_back({.type = std::string(binary.type) + "GradLeft",
                           .description = "(dY, A?, B?) -> dA: absent is what the derivative does not need",
                           .flops = gradient_flops,
                           .in_place = {0}});
    definitions.push_back({.type = std::string(binary.type) + "GradRight",
                           .description = "(dY, A?, B?) -> dB: absent is what the derivative does not need",
                           .flops = gradient_flops,
                           .in_place = {0}});
  }
  return definitions;
}

}  // namespace rookery
