// Conv (https://onnx.ai/onnx/operators/onnx__Conv.html) and MaxPool
// (https://onnx.ai/onnx/operators/onnx__MaxPool.html), two-dimensional.
#include <fmt/format.h>

#include "models/base/error.hpp"
#include "models/graph/differentiate.hpp"
#include "models/graph/ops.hpp"
#include "models/graph/window.hpp"

namespace rookery {
namespace {

void expect_image(const TensorType& type) {
  if (type.dtype != DType::kF32 || type.shape.rank() != 4) {
    throw ConfigError("its input must be f32[batch, channels, height, width]");
  }
}

std::vector<TensorType> infer_conv(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.size() < 2) throw ConfigError("needs an input and a weight");
  expect_image(inputs[0]);
  const Shape& weight = inputs[1].shape;
  const std::int64_t groups = op.integer("group", 1);
  if (weight.rank() != 4) throw ConfigError("its weight must be f32[out, in / groups, height, width]");
  if (groups < 1 || weight[0] % groups != 0 || inputs[0].shape[1] != weight[1] * groups) {
    throw ConfigError(fmt::format("{} input channels, {} groups and a weight of {} do not fit",
                                  inputs[0].shape[1], groups, weight.to_string()));
  }
  if (inputs.size() > 2 && inputs[2].shape.rank() != 0 && inputs[2].shape != Shape{weight[0]}) {
    throw ConfigError(fmt::format("its bias must be f32[{}]", weight[0]));
  }
  const Window window = conv_window(op, inputs[0].shape, weight);
  return {{DType::kF32, {inputs[0].shape[0], weight[0], window.output[0], window.output[1]}}};
}

void differentiate_conv(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_before_activation(op);
  if (dy == kNoValue) return;
  builder.add(Phase::kBackwardInputs, op, "ConvGradInput", {dy, op.inputs[1]}, {op.inputs[0]});
  const ValueId bias = op.inputs.size() > 2 ? op.inputs[2] : kNoValue;
  builder.add(Phase::kBackwardWeights, op, "ConvGradWeight", {dy, op.inputs[0]}, {op.inputs[1], bias});
}

double conv_flops(const Op&, std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  const Shape& weight = inputs[1].shape;
  return 2.0 * static_cast<double>(outputs[0].shape.elements()) *
         static_cast<double>(weight[1] * weight[2] * weight[3]);
}

double conv_grad_input_flops(const Op&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  const Shape& weight = inputs[1].shape;
  return 2.0 * static_cast<double>(inputs[0].shape.elements()) *
         static_cast<double>(weight[1] * weight[2] * weight[3]);
}

double conv_grad_weight_flops(const Op&, std::span<const TensorType> inputs,
                              std::span<const TensorType> outputs) {
  const Shape& weight = outputs[0].shape;
  return 2.0 * static_cast<double>(inputs[0].shape.elements()) *
         static_cast<double>(weight[1] * weight[2] * weight[3]);
}

std::vector<TensorType> infer_max_pool(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.empty()) throw ConfigError("needs an input");
  expect_image(inputs[0]);
  const Window window = pool_window(op, inputs[0].shape);
  if (window.kernel[0] * window.kernel[1] > 256) throw ConfigError("its window has more than 256 elements");
  const Shape shape{inputs[0].shape[0], inputs[0].shape[1], window.output[0], window.output[1]};
  return {{DType::kF32, shape}, {DType::kU8, shape}};
}

double pool_flops(const Op& op, std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  const Window window = pool_window(op, inputs[0].shape);
  return static_cast<double>(outputs[0].shape.elements() * window.kernel[0] * window.kernel[1]);
}

void add_window_output(Graph& graph, OpId op) {
  graph.add_output_of(op, graph.op(op).name + ".window");
}

void differentiate_max_pool(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_before_activation(op);
  if (dy == kNoValue) return;
  builder.add(Phase::kBackwardInputs, op, "MaxPoolGrad", {dy, op.outputs[1]}, {op.inputs[0]});
}

}  // namespace

std::vector<OpDefinition> convolution_ops() {
  return {
      {.type = "Conv", .infer = infer_conv, .differentiate = differentiate_conv, .flops = conv_flops},
      {.type = "ConvGradInput", .flops = conv_grad_input_flops},
      {.type = "ConvGradWeight", .flops = conv_grad_weight_flops},
      {.type = "MaxPool",
       .infer = infer_max_pool,
       .to_training = add_window_output,
       .differentiate = differentiate_max_pool,
       .flops = pool_flops},
      {.type = "MaxPoolGrad"},
  };
}

}  // namespace rookery
