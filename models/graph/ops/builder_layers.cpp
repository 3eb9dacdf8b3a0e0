// Layers that slide windows or have parameters.

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/base/libraries/format.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/ops/recurrent.hpp"

namespace rookery {
namespace {

using Integers = std::vector<std::int64_t>;
using Attributes = std::map<std::string, Attribute>;

// PyTorch's default for convolutions and linear layers: kaiming_uniform with a = sqrt(5) is uniform
// in 1 / sqrt(fan_in), and the bias is too.
Initializer fan_in_uniform(std::int64_t fan_in) {
  return {.kind = Initializer::Kind::kUniform,
          .bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(fan_in)))};
}

TensorType f32(Shape shape) {
  return {DType::kF32, shape};
}

Integers along(const GraphBuilder::Kernel& kernel, std::size_t axes) {
  if (kernel.sizes.size() == 1) return Integers(axes, kernel.sizes[0]);
  ROOKERY_CHECK(kernel.sizes.size() == axes, "a kernel of {} axes over {}", kernel.sizes.size(), axes);
  return kernel.sizes;
}

// `padding` on all sides, or by one of the rules of GraphBuilder.
void set_padding(Attributes& attributes, std::int64_t padding, const Integers& kernel,
                 std::int64_t dilation) {
  if (padding == GraphBuilder::kSameUpper) {
    attributes["auto_pad"] = std::string("SAME_UPPER");
    return;
  }
  Integers pads(2 * kernel.size(), padding);
  if (padding == GraphBuilder::kKeepsSize) {
    for (std::size_t i = 0; i < pads.size(); ++i) pads[i] = dilation * (kernel[i % kernel.size()] / 2);
  }
  attributes["pads"] = std::move(pads);
}

// Of a convolution or a transposed one.
template <typename Options>
Attributes convolution_attributes(const Options& options, const Integers& kernel) {
  const std::size_t axes = kernel.size();
  Attributes attributes{
      {"kernel_shape", kernel}, {"strides", Integers(axes, options.stride)}, {"group", options.groups}};
  set_padding(attributes, options.padding, kernel, options.dilation);
  if (options.dilation != 1) attributes["dilations"] = Integers(axes, options.dilation);
  return attributes;
}

}  // namespace

std::vector<ValueId> GraphBuilder::convolution_inputs(const std::string& name, ValueId x, Integers weight,
                                                      const Integers& kernel, std::int64_t out_channels,
                                                      bool bias, const LayerStart& start) {
  weight.insert(weight.end(), kernel.begin(), kernel.end());
  const Shape shape(weight);
  const Initializer initializer = fan_in_uniform(shape.elements() / shape[0]);
  std::vector<ValueId> inputs{x, parameter(name + ".weight", shape, start.weight.value_or(initializer))};
  if (bias) inputs.push_back(parameter(name + ".bias", {out_channels}, start.bias.value_or(initializer)));
  return inputs;
}

ValueId GraphBuilder::conv(const std::string& name, ValueId x, std::int64_t out_channels, std::size_t axes,
                           const ConvOptions& options) {
  const Integers kernel = along(options.kernel, axes);
  const Integers weight{out_channels, shape_of(x)[1] / options.groups};
  return apply(name, "Conv",
               convolution_inputs(name, x, weight, kernel, out_channels, options.bias, options.start),
               convolution_attributes(options, kernel));
}

ValueId GraphBuilder::conv_transpose(const std::string& name, ValueId x, std::int64_t out_channels,
                                     std::size_t axes, const ConvTransposeOptions& options) {
  const Integers kernel = along(options.kernel, axes);
  Attributes attributes = convolution_attributes(options, kernel);
  if (options.output_padding != 0) attributes["output_padding"] = Integers(axes, options.output_padding);
  const Integers weight{shape_of(x)[1], out_channels / options.groups};
  return apply(name, "ConvTranspose",
               convolution_inputs(name, x, weight, kernel, out_channels, options.bias, options.start),
               std::move(attributes));
}

ValueId GraphBuilder::conv1d(const std::string& name, ValueId x, std::int64_t out_channels,
                             const ConvOptions& options) {
  return conv(name, x, out_channels, 1, options);
}

ValueId GraphBuilder::conv2d(const std::string& name, ValueId x, std::int64_t out_channels,
                             const ConvOptions& options) {
  return conv(name, x, out_channels, 2, options);
}

ValueId GraphBuilder::conv_transpose1d(const std::string& name, ValueId x, std::int64_t out_channels,
                                       const ConvTransposeOptions& options) {
  return conv_transpose(name, x, out_channels, 1, options);
}

ValueId GraphBuilder::conv_transpose2d(const std::string& name, ValueId x, std::int64_t out_channels,
                                       const ConvTransposeOptions& options) {
  return conv_transpose(name, x, out_channels, 2, options);
}

ValueId GraphBuilder::pool(const std::string& name, const std::string& type, ValueId x,
                           const Integers& kernel, const Integers& stride, std::int64_t padding) {
  std::map<std::string, Attribute> attributes{{"kernel_shape", kernel}, {"strides", stride}};
  if (padding != 0) {
    set_padding(attributes, padding, kernel, 1);
    if (type == "AveragePool") attributes["count_include_pad"] = std::int64_t{1};
  }
  return apply(name, type, {x}, std::move(attributes));
}

ValueId GraphBuilder::max_pool1d(const std::string& name, ValueId x, std::int64_t kernel, std::int64_t stride,
                                 std::int64_t padding) {
  return pool(name, "MaxPool", x, {kernel}, {stride}, padding);
}

ValueId GraphBuilder::max_pool2d(const std::string& name, ValueId x, std::int64_t kernel, std::int64_t stride,
                                 std::int64_t padding) {
  return pool(name, "MaxPool", x, {kernel, kernel}, {stride, stride}, padding);
}

ValueId GraphBuilder::avg_pool1d(const std::string& name, ValueId x, std::int64_t kernel, std::int64_t stride,
                                 std::int64_t padding) {
  return pool(name, "AveragePool", x, {kernel}, {stride}, padding);
}

ValueId GraphBuilder::avg_pool2d(const std::string& name, ValueId x, std::int64_t kernel, std::int64_t stride,
                                 std::int64_t padding) {
  return pool(name, "AveragePool", x, {kernel, kernel}, {stride, stride}, padding);
}

ValueId GraphBuilder::batch_norm(const std::string& name, ValueId x, float epsilon, float momentum) {
  const TensorType per_channel = f32({shape_of(x)[1]});
  const Initializer ones{.kind = Initializer::Kind::kOnes};
  const ValueId scale = graph_.add_parameter(name + ".weight", per_channel, ones);
  const ValueId bias = graph_.add_parameter(name + ".bias", per_channel);
  const ValueId mean = graph_.add_buffer(name + ".running_mean", per_channel);
  const ValueId variance = graph_.add_buffer(name + ".running_var", per_channel, ones);
  const ValueId tracked = graph_.add_buffer(name + ".num_batches_tracked", {DType::kI64, Shape()});
  return append({.name = name,
                 .type = "BatchNormalization",
                 .inputs = {x, scale, bias, mean, variance, tracked},
                 .outputs = {},
                 .attributes = {{"epsilon", epsilon}, {"momentum", 1 - momentum}}});
}

ValueId GraphBuilder::layer_norm(const std::string& name, ValueId x, int dimensions, float epsilon) {
  const Shape shape = shape_of(x);
  const TensorType type = f32(Shape(shape.dims().last(dimensions)));
  const Initializer ones{.kind = Initializer::Kind::kOnes};
  const ValueId scale = graph_.add_parameter(name + ".weight", type, ones);
  const ValueId bias = graph_.add_parameter(name + ".bias", type);
  return apply(name, "LayerNormalization", {x, scale, bias},
               {{"axis", std::int64_t{-dimensions}}, {"epsilon", epsilon}});
}

ValueId GraphBuilder::group_norm(const std::string& name, ValueId x, std::int64_t groups) {
  const TensorType per_channel = f32({shape_of(x)[1]});
  const Initializer ones{.kind = Initializer::Kind::kOnes};
  const ValueId scale = graph_.add_parameter(name + ".weight", per_channel, ones);
  const ValueId bias = graph_.add_parameter(name + ".bias", per_channel);
  return apply(name, "GroupNormalization", {x, scale, bias}, {{"num_groups", groups}, {"epsilon", 1e-5F}});
}

ValueId GraphBuilder::linear(const std::string& name, ValueId x, std::int64_t out_features, bool bias,
                             const LayerStart& start) {
  const std::int64_t in = shape_of(x)[-1];
  const Initializer initializer = fan_in_uniform(in);
  const ValueId weight = parameter(name + ".weight", {out_features, in}, start.weight.value_or(initializer));
  const ValueId added =
      bias ? parameter(name + ".bias", {out_features}, start.bias.value_or(initializer)) : kNoValue;
  return linear_by(name, x, weight, added);
}

ValueId GraphBuilder::linear_by(const std::string& name, ValueId x, ValueId weight, ValueId bias) {
  const Shape shape = shape_of(x);
  std::vector<ValueId> inputs{x, weight};
  if (bias != kNoValue) inputs.push_back(bias);
  const bool has_parts = shape.rank() > 2;
  if (has_parts)
    inputs[0] = apply(name + "_rows", "Flatten", {x}, {{"axis", std::int64_t{shape.rank() - 1}}});
  const ValueId rows = apply(name, "Gemm", std::move(inputs), {{"transB", std::int64_t{1}}});
  if (!has_parts) return rows;
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims.front() = -1;  // the batch
  dims.back() = shape_of(weight)[0];
  return reshape(name + "_parts", rows, dims);
}

ValueId GraphBuilder::scale(const std::string& name, ValueId x, const Shape& shape) {
  return mul(name, x, parameter(name + ".weight", shape, {.kind = Initializer::Kind::kOnes}));
}

ValueId GraphBuilder::embedding(const std::string& name, ValueId ids, std::int64_t count, std::int64_t width,
                                Initializer initializer) {
  return gather(name, parameter(name + ".weight", {count, width}, initializer), ids);
}

std::vector<ValueId> GraphBuilder::recurrent(const std::string& name, const std::string& type, ValueId x,
                                             std::int64_t hidden, const RecurrentOptions& options) {
  Op op{.name = fmt::format("{}_l{}{}", name, options.layer, options.reverse ? "_reverse" : ""),
        .type = type,
        .inputs = {x},
        .outputs = {},
        .attributes = options.attributes};
  const GateOrders& orders = *gate_orders(op);
  op.attributes.emplace("hidden_size", hidden);
  op.attributes.emplace("direction", std::string(options.reverse ? "reverse" : "forward"));
  if (type != "RNN") op.attributes.emplace("gates", std::string(orders.torch));
  if (type == "GRU") op.attributes.emplace("linear_before_reset", std::int64_t{1});
  const std::string suffix = op.name.substr(name.size());
  const std::int64_t rows = recurrent_gates(op) * hidden;
  const Initializer initializer = fan_in_uniform(hidden);
  const auto add = [&](const char* part, const Shape& shape) {
    op.inputs.push_back(parameter(fmt::format("{}.{}{}", name, part, suffix), shape, initializer));
  };
  add("weight_ih", {rows, shape_of(x)[-1]});
  add("weight_hh", {rows, hidden});
  if (options.bias) {
    add("bias_ih", {rows});
    add("bias_hh", {rows});
  } else if (!options.initial.empty()) {
    op.inputs.insert(op.inputs.end(), 2, kNoValue);
  }
  op.inputs.insert(op.inputs.end(), options.initial.begin(), options.initial.end());
  std::vector<std::string> outputs{op.name + "_out", op.name + "_last_h"};
  if (type == "LSTM") outputs.push_back(op.name + "_last_c");
  return graph_.op(graph_.add_op(std::move(op), outputs)).outputs;
}

}  // namespace rookery
