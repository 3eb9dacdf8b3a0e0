// BatchNormalization (https://onnx.ai/onnx/operators/onnx__BatchNormalization.html).

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/batch_norm.hpp"
#include "models/graph/ops/families.hpp"

namespace rookery {
namespace {

std::vector<TensorType> infer_batch_norm(const Op&, std::span<const TensorType> inputs) {
  if (inputs.size() < 5 || inputs[kBatchNormX].shape.rank() < 2) {
    throw ConfigError("needs an input f32[batch, channels, ...], scale, bias, mean and variance");
  }
  const Shape channels{inputs[kBatchNormX].shape[1]};
  for (std::size_t i = kBatchNormScale; i <= kBatchNormVariance; ++i) {
    if (inputs[i].shape != channels)
      throw ConfigError(fmt::format("input {} must be f32{}", i, channels.to_string()));
  }
  if (inputs.size() > kBatchNormAdded && inputs[kBatchNormAdded] != inputs[kBatchNormX])
    throw ConfigError("what is added must have the type of the input");
  const TensorType per_channel{DType::kF32, channels};
  return {inputs[kBatchNormX], per_channel, per_channel, {DType::kI64, Shape()}, per_channel, per_channel};
}

void batch_norm_to_training(Graph& graph, OpId id) {
  Op& op = graph.op(id);
  if (graph.value(op.inputs[kBatchNormMean]).fixed) {
    op.attributes["running_statistics"] = std::int64_t{1};
    return;
  }
  const std::string name = op.name;
  op.attributes["training_mode"] = std::int64_t{1};
  op.outputs.push_back(op.inputs[kBatchNormMean]);
  op.outputs.push_back(op.inputs[kBatchNormVariance]);
  op.outputs.push_back(op.inputs.size() > kBatchNormTracked ? op.inputs[kBatchNormTracked] : kNoValue);
  graph.add_output_of(id, name + ".saved_mean");
  graph.add_output_of(id, name + ".saved_inverse_deviation");
}

void differentiate_batch_norm(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_before_activation(op);
  if (dy == kNoValue) return;
  // First, as if the two were apart.
  if (op.inputs.size() > kBatchNormAdded)
    builder.add(Phase::kBackwardInputs, op, "Identity", {dy}, {op.inputs[kBatchNormAdded]});
  const bool by_running = op.integer("running_statistics", 0) != 0;
  builder.add(Phase::kBackwardInputs, op, "BatchNormalizationGrad",
              {dy, op.inputs[kBatchNormX], op.inputs[kBatchNormScale],
               by_running ? op.inputs[kBatchNormMean] : op.outputs[4],
               by_running ? op.inputs[kBatchNormVariance] : op.outputs[5]},
              {op.inputs[kBatchNormX], op.inputs[kBatchNormScale], op.inputs[kBatchNormBias]});
}

double batch_norm_flops(const Op&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  return 8.0 * static_cast<double>(inputs[kBatchNormX].shape.elements());
}

}  // namespace

bool uses_batch_statistics(const Graph& graph) {
  return std::ranges::any_of(graph.ops(), [&](const Op& op) {
    return op.type == "BatchNormalization" && !graph.value(op.inputs[kBatchNormMean]).fixed;
  });
}

std::vector<OpDefinition> batch_norm_ops() {
  using enum AttributeKind;
  return {
      {.type = "BatchNormalization",
       .description =
           R"((X, scale, bias, mean, variance, num_batches_tracked?, R?) -> Y, running mean?, running variance?,
num_batches_tracked?, saved mean?, saved inverse deviation?: num_batches_tracked is an i64[]; R is added to Y.
Training form: the attribute training_mode is 1. Running mean and variance are the ids of the buffers themselves,
updated in place as PyTorch does: unbiased variance, new = momentum * old + (1 - momentum) * batch. The saved mean
and inverse deviation are f32[C]. What is run again (passes/memory/recompute.hpp) has no buffers among its outputs:
they are absent in run(). Where mean and variance are fixed the op stays as in evaluation, with the attribute
running_statistics = 1 instead.)",
       .signature = OpSignature{.inputs = {5, 5}, .attributes = {{"epsilon", kFloat}, {"momentum", kFloat}}},
       .infer = infer_batch_norm,
       .to_training = batch_norm_to_training,
       .differentiate = differentiate_batch_norm,
       .flops = batch_norm_flops,
       .in_place = {kBatchNormX, kBatchNormAdded},
       .images = {kBatchNormX, kBatchNormAdded}},
      {.type = "BatchNormalizationGrad",
       .description =
           "(dY, X, scale, saved mean, saved inverse deviation) -> dX, dscale, dbias: with "
           "running_statistics the last two are the mean and the variance, which dX does not go through",
       .flops = batch_norm_flops,
       .in_place = {0}},
  };
}

}  // namespace rookery
