// Conv (https://onnx.ai/onnx/operators/onnx__Conv.html) and ConvTranspose
// (https://onnx.ai/onnx/operators/onnx__ConvTranspose.html), in one and two dimensions.

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/families.hpp"
#include "models/graph/ops/window.hpp"

namespace rookery {
namespace {

void expect_convolution(std::span<const TensorType> inputs) {
  if (inputs.size() < 2) throw ConfigError("needs an input and a weight");
  expect_image(inputs[0]);
  if (inputs[1].dtype != DType::kF32 || inputs[1].shape.rank() != inputs[0].shape.rank()) {
    throw ConfigError(fmt::format("its weight must be f32 of rank {}, not {}", inputs[0].shape.rank(),
                                  inputs[1].to_string()));
  }
}

// Attribute group, which divides the first dimension of the weight.
std::int64_t groups_of(const Op& op, const Shape& weight) {
  const std::int64_t groups = op.integer("group", 1);
  if (weight[0] > 0 && weight[1] > 0 && groups > 0 && weight[0] % groups == 0) return groups;
  throw ConfigError(
      fmt::format("attribute 'group': {} does not divide a weight of {}", groups, weight.to_string()));
}

void expect_channels(const Op& op, std::span<const TensorType> inputs, std::int64_t in, std::int64_t out) {
  if (inputs[0].shape[1] != in) {
    throw ConfigError(fmt::format("{} input channels, {} groups and a weight of {} do not fit",
                                  inputs[0].shape[1], op.integer("group", 1), inputs[1].shape.to_string()));
  }
  if (inputs.size() > 2 && op.inputs[2] != kNoValue && inputs[2] != TensorType{DType::kF32, {out}}) {
    throw ConfigError(fmt::format("its bias must be f32[{}], not {}", out, inputs[2].to_string()));
  }
}

std::vector<TensorType> infer_conv(const Op& op, std::span<const TensorType> inputs) {
  expect_convolution(inputs);
  const Shape& input = inputs[0].shape;
  const Shape& weight = inputs[1].shape;
  expect_channels(op, inputs, weight[1] * groups_of(op, weight), weight[0]);
  return {{DType::kF32, with_plane(input, weight[0], conv_window(op, input, weight).output)}};
}

std::vector<TensorType> infer_conv_transpose(const Op& op, std::span<const TensorType> inputs) {
  expect_convolution(inputs);
  const Shape& input = inputs[0].shape;
  const Shape& weight = inputs[1].shape;
  const std::int64_t channels = weight[1] * groups_of(op, weight);
  expect_channels(op, inputs, weight[0], channels);
  return {{DType::kF32, with_plane(input, channels, conv_transpose_window(op, input, weight).output)}};
}

// <op>GradInput(dY, W) -> dX and <op>GradWeight(dY, X) -> dW, dB.
void differentiate_convolution(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_before_activation(op);
  if (dy == kNoValue) return;
  const ValueId x = op.inputs[0];
  const std::vector<ValueId> weights{op.inputs[1], op.inputs.size() > 2 ? op.inputs[2] : kNoValue};
  builder.add(builder.phase_for(x), op, op.type + "GradInput", {dy, op.inputs[1]}, {x});
  builder.add(builder.phase_for(weights), op, op.type + "GradWeight", {dy, x}, weights);
}

// A multiplication and an addition for every element of `values` and every element of one filter, the part
// of the weight at one place of its first dimension.
double products(const Shape& values, const Shape& weight) {
  const std::int64_t filter = weight.elements() / weight[0];
  return 2.0 * static_cast<double>(values.elements()) * static_cast<double>(filter);
}

// Of a Conv, and of the gradient that is one.
double conv_flops(const Op&, std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  return products(outputs[0].shape, inputs[1].shape);
}

double conv_transpose_flops(const Op&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  return products(inputs[0].shape, inputs[1].shape);
}

double grad_weight_flops(const Op& op, std::span<const TensorType> inputs,
                         std::span<const TensorType> outputs) {
  if (op.outputs[0] == kNoValue) return static_cast<double>(inputs[0].shape.elements());  // of the bias alone
  return products(inputs[op.type == "ConvGradWeight" ? 0 : 1].shape, outputs[0].shape);
}

}  // namespace

std::vector<OpDefinition> convolution_ops() {
  using enum AttributeKind;
  return {
      {.type = "Conv",
       .description = "(X, W, bias?) -> Y",
       .signature = OpSignature{.inputs = {2, 3},
                                .attributes = {{"auto_pad", kString},
                                               {"dilations", kInts},
                                               {"group", kInt},
                                               {"kernel_shape", kInts},
                                               {"pads", kInts},
                                               {"strides", kInts}}},
       .infer = infer_conv,
       .differentiate = differentiate_convolution,
       .flops = conv_flops,
       .images = {0}},
      {.type = "ConvGradInput", .description = "(dY, W) -> dX", .flops = conv_transpose_flops},
      {.type = "ConvGradWeight", .description = "(dY, X) -> dW, dbias", .flops = grad_weight_flops},
      {.type = "ConvTranspose",
       .description = "(X, W, bias?) -> Y",
       .signature = OpSignature{.inputs = {2, 3},
                                .attributes = {{"auto_pad", kString},
                                               {"dilations", kInts},
                                               {"group", kInt},
                                               {"kernel_shape", kInts},
                                               {"output_padding", kInts},
                                               {"output_shape", kInts},
                                               {"pads", kInts},
                                               {"strides", kInts}}},
       .infer = infer_conv_transpose,
       .differentiate = differentiate_convolution,
       .flops = conv_transpose_flops},
      {.type = "ConvTransposeGradInput", .description = "(dY, W) -> dX", .flops = conv_flops},
      {.type = "ConvTransposeGradWeight", .description = "(dY, X) -> dW, dbias", .flops = grad_weight_flops},
  };
}

}  // namespace rookery
