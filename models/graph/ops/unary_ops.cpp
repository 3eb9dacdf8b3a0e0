// Functions of one number, element by element (https://onnx.ai/onnx/operators/, opset 17; Gelu is of
// opset 20).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/base/error.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/families.hpp"

namespace rookery {
namespace {

// What the derivative is computed from. Linear functions are their own gradient op.
enum class Slope : std::uint8_t { kOfInput, kOfOutput, kLinear };

struct Unary {
  const char* type;
  Slope slope;
  double flops;  // an element
  std::vector<const char*> numbers = {};
};

const std::vector<Unary>& unary_table() {
  using enum Slope;
  static const std::vector<Unary> table{
      {"Abs", kOfInput, 1},       {"Clip", kOfInput, 2, {"min", "max"}},
      {"Cos", kOfInput, 20},      {"Elu", kOfInput, 10, {"alpha"}},
      {"Erf", kOfInput, 20},      {"Exp", kOfOutput, 10},
      {"Gelu", kOfInput, 20},     {"HardSigmoid", kOfInput, 4, {"alpha", "beta"}},
      {"HardSwish", kOfInput, 5}, {"LeakyRelu", kOfInput, 2, {"alpha"}},
      {"Log", kOfInput, 10},      {"Neg", kLinear, 1},
      {"Sigmoid", kOfOutput, 10}, {"Sin", kOfInput, 20},
      {"Softplus", kOfInput, 20}, {"Sqrt", kOfOutput, 4},
      {"Tanh", kOfOutput, 10},
  };
  return table;
}

std::vector<TensorType> infer_unary(const Unary& unary, const Op& op, std::span<const TensorType> inputs) {
  if (inputs.size() != 1 || inputs[0].dtype != DType::kF32) throw ConfigError("needs one input, of f32");
  for (const char* key : unary.numbers) {
    const float number = op.number(key, 0);
    const bool may_be_infinite = op.type == "Clip";
    if (std::isnan(number) || (std::isinf(number) && !may_be_infinite))
      throw ConfigError(fmt::format("its {} is {}", key, number));
  }
  if (op.type == "Gelu") {
    const std::string approximate = op.text("approximate", "none");
    if (approximate != "none" && approximate != "tanh")
      throw ConfigError(fmt::format("approximate is '{}', not 'none' or 'tanh'", approximate));
  }
  return {inputs[0]};
}

void differentiate_unary(Slope slope, GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  const ValueId x = op.inputs[0];
  const Phase phase = builder.phase_for(x);
  if (slope == Slope::kLinear) {
    builder.add(phase, op, op.type, {dy}, {x});
  } else {
    builder.add(phase, op, op.type + "Grad", {dy, slope == Slope::kOfInput ? x : op.outputs[0]}, {x});
  }
}

}  // namespace

std::vector<OpDefinition> unary_ops() {
  std::vector<OpDefinition> definitions;
  for (const Unary& unary : unary_table()) {
    const auto flops = [each = unary.flops](const Op&, std::span<const TensorType> inputs,
                                            std::span<const TensorType>) {
      return each * static_cast<double>(inputs[0].shape.elements());
    };
    definitions.push_back(
        {.type = unary.type,
         .infer = [&unary](const Op& op, auto inputs) { return infer_unary(unary, op, inputs); },
         .differentiate = [slope = unary.slope](GradientBuilder& builder,
                                                const Op& op) { differentiate_unary(slope, builder, op); },
         .flops = flops,
         .in_place = {0},
         .images = OpDefinition::Images::kFirst});
    if (unary.slope != Slope::kLinear) {
      definitions.push_back({.type = std::string(unary.type) + "Grad", .flops = flops, .in_place = {0, 1}});
    }
  }
  return definitions;
}

}  // namespace rookery
