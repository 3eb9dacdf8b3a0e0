// Functions of one number, element by element (https://onnx.ai/onnx/operators/, opset 17; Gelu is of
// opset 20).

#include <algorithm>
#include <cmath>
#include <optional>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/families.hpp"

namespace rookery {
namespace {

// What the derivative is computed from. Linear functions are their own gradient op.
enum class SlopeFrom : std::uint8_t { kOfInput, kOfOutput, kLinear };

struct Unary {
  const char* type;
  SlopeFrom slope;
  double flops;  // an element
  const char* text;
  std::vector<const char*> numbers = {};  // attributes that are numbers
};

// At a kink the derivative is PyTorch's, unless that is infinite.
const std::vector<Unary>& unary_table() {
  using enum SlopeFrom;
  static const std::vector<Unary> table{
      {"Abs", kOfInput, 1, "|x|"},
      {"Clip",
       kOfInput,
       2,
       "x between the attributes min and max, each of which may be absent and then bounds nothing",
       {"min", "max"}},
      {"Cos", kOfInput, 20, "cos x"},
      {"Elu", kOfInput, 10, "x from 0 on, else alpha (e^x - 1)", {"alpha"}},
      {"Erf", kOfInput, 20, "the error function of x"},
      {"Exp", kOfOutput, 10, "e^x"},
      {"Gelu", kOfInput, 20,
       "x / 2 (1 + erf(x / sqrt 2)), or by the attribute approximate = \"tanh\" the approximation with tanh"},
      {"HardSigmoid", kOfInput, 4, "alpha x + beta between 0 and 1", {"alpha", "beta"}},
      {"HardSwish", kOfInput, 5, "x times x / 6 + 1/2 between 0 and 1"},
      {"LeakyRelu", kOfInput, 2, "x from 0 on, else alpha x", {"alpha"}},
      {"Log", kOfInput, 10, "log x"},
      {"Neg", kLinear, 1, "-x. It is its own gradient operator, (dY) -> dX"},
      {"Selu", kOfInput, 10, "gamma times x from 0 on, else gamma alpha (e^x - 1)", {"alpha", "gamma"}},
      {"Sigmoid", kOfOutput, 10, "1 / (1 + e^-x)"},
      {"Sin", kOfInput, 20, "sin x"},
      {"Softplus", kOfInput, 20, "log(1 + e^x)"},
      {"Sqrt", kOfOutput, 4, "the square root of x; 0 is taken as the derivative at 0"},
      {"Tanh", kOfOutput, 10, "tanh x"},
  };
  return table;
}

// Its numbers are attributes in files, too, but those of Clip, which are inputs; Gelu is no operator of
// set 17.
std::optional<OpSignature> signature_of(const Unary& unary) {
  using enum AttributeKind;
  if (unary.type == std::string("Gelu")) return std::nullopt;
  if (unary.type == std::string("Clip"))
    return OpSignature{.inputs = {1, 3}, .constant_inputs = {{1, {"min", kFloat}}, {2, {"max", kFloat}}}};
  OpSignature signature;
  for (const char* key : unary.numbers) signature.attributes.emplace(key, kFloat);
  return signature;
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

void differentiate_unary(SlopeFrom slope, GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  const ValueId x = op.inputs[0];
  const Phase phase = builder.phase_for(x);
  if (slope == SlopeFrom::kLinear) {
    builder.add(phase, op, op.type, {dy}, {x});
  } else {
    builder.add(phase, op, op.type + "Grad", {dy, slope == SlopeFrom::kOfInput ? x : op.outputs[0]}, {x});
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
         .description = fmt::format("(X) -> Y: {}", unary.text),
         .signature = signature_of(unary),
         .infer = [&unary](const Op& op, auto inputs) { return infer_unary(unary, op, inputs); },
         .differentiate = [slope = unary.slope](GradientBuilder& builder,
                                                const Op& op) { differentiate_unary(slope, builder, op); },
         .flops = flops,
         .in_place = {0},
         .images = {0}});
    if (unary.slope != SlopeFrom::kLinear) {
      const bool of_input = unary.slope == SlopeFrom::kOfInput;
      definitions.push_back({.type = std::string(unary.type) + "Grad",
                             .description = of_input ? "(dY, X) -> dX" : "(dY, Y) -> dX",
                             .flops = flops,
                             .in_place = {0, 1}});
    }
  }
  return definitions;
}

}  // namespace rookery
