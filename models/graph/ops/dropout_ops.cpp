// Dropout (https://onnx.ai/onnx/operators/onnx__Dropout.html).

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/families.hpp"

namespace rookery {
namespace {

constexpr float kRatio = 0.5F;  // unless told

std::vector<TensorType> infer_dropout(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.empty()) throw ConfigError("needs an input");
  const float ratio = op.number("ratio", kRatio);
  if (!(ratio >= 0 && ratio < 1)) throw ConfigError(fmt::format("ratio {} is not in [0, 1)", ratio));
  return {inputs[0], {DType::kU8, inputs[0].shape}};
}

// A ratio of 0 drops nothing.
void dropout_to_training(Graph& graph, OpId op) {
  if (graph.op(op).number("ratio", kRatio) > 0) graph.add_output_of(op, graph.op(op).name + ".mask");
}

void differentiate_dropout(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  std::vector<ValueId> inputs{dy};
  if (op.outputs.size() > 1) inputs.push_back(op.outputs[1]);
  builder.add(Phase::kBackwardInputs, op, "DropoutGrad", std::move(inputs), {op.inputs[0]});
}

double dropout_flops(const Op&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  return 10.0 * static_cast<double>(inputs[0].shape.elements());
}

}  // namespace

std::vector<OpDefinition> dropout_ops() {
  using enum AttributeKind;
  return {
      {.type = "Dropout",
       .description = R"((X) -> Y, mask?: X, but in training with a ratio above 0.
Training form: mask u8, where there is a ratio, has the shape of Y, 1 where kept. Element i is kept when word i % 4 of
philox({i / 4 low, i / 4 high, stream low, stream high}, rng_key(seed, op name)) >= ratio * 2^32; kept elements are
times 1 / (1 - ratio).)",
       .signature = OpSignature{.inputs = {1, 2}, .constant_inputs = {{1, {"ratio", kFloat}}}},
       .infer = infer_dropout,
       .to_training = dropout_to_training,
       .differentiate = differentiate_dropout,
       .flops = dropout_flops,
       .is_view = [](const Op& op) { return op.outputs.size() == 1; },
       .in_place = {0}},
      {.type = "DropoutGrad",
       .description = "(dY, mask?) -> dX: without mask a view",
       .is_view = [](const Op& op) { return op.inputs.size() == 1; },
       .in_place = {0}},
  };
}

}  // namespace rookery
