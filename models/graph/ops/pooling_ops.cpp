// MaxPool (https://onnx.ai/onnx/operators/onnx__MaxPool.html), AveragePool
// (https://onnx.ai/onnx/operators/onnx__AveragePool.html) and GlobalAveragePool
// (https://onnx.ai/onnx/operators/onnx__GlobalAveragePool.html), in one and two dimensions.

#include <limits>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/families.hpp"
#include "models/graph/ops/window.hpp"

namespace rookery {
namespace {

const Shape& image_of(std::span<const TensorType> inputs) {
  if (inputs.size() != 1) throw ConfigError(fmt::format("has {} inputs, not 1", inputs.size()));
  expect_image(inputs[0]);
  return inputs[0].shape;
}

std::vector<TensorType> infer_max_pool(const Op& op, std::span<const TensorType> inputs) {
  const Shape& image = image_of(inputs);
  const Window window = pool_window(op, image);
  if (window.taps() > std::numeric_limits<std::int32_t>::max()) {
    throw ConfigError(
        fmt::format("attribute 'kernel_shape': a window of {} elements is too large", window.taps()));
  }
  const Shape shape = with_plane(image, image[1], window.output);
  return {{DType::kF32, shape}, {window.taps() <= 256 ? DType::kU8 : DType::kI32, shape}};
}

std::vector<TensorType> infer_average_pool(const Op& op, std::span<const TensorType> inputs) {
  const Shape& image = image_of(inputs);
  if (op.attributes.contains("dilations")) {
    throw ConfigError("attribute 'dilations': this operator has none before opset 19");
  }
  const std::int64_t padding = op.integer("count_include_pad", 0);
  if (padding != 0 && padding != 1) {
    throw ConfigError(fmt::format("attribute 'count_include_pad': {} is not 0 or 1", padding));
  }
  return {{DType::kF32, with_plane(image, image[1], pool_window(op, image).output)}};
}

std::vector<TensorType> infer_global_average_pool(const Op&, std::span<const TensorType> inputs) {
  const Shape& image = image_of(inputs);
  return {{DType::kF32, with_plane(image, image[1], global_window(image).output)}};
}

double pool_flops(const Op& op, std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  const Window window = pool_window(op, inputs[0].shape);
  return static_cast<double>(outputs[0].shape.elements()) * static_cast<double>(window.taps());
}

double global_pool_flops(const Op&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  return static_cast<double>(inputs[0].shape.elements());
}

void add_window_output(Graph& graph, OpId op) {
  graph.add_output_of(op, graph.op(op).name + ".window");
}

void differentiate_max_pool(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_before_activation(op);
  if (dy == kNoValue) return;
  builder.add(builder.phase_for(op.inputs[0]), op, "MaxPoolGrad", {dy, op.outputs[1]}, {op.inputs[0]});
}

void differentiate_average_pool(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  builder.add(builder.phase_for(op.inputs[0]), op, op.type + "Grad", {dy}, {op.inputs[0]});
}

}  // namespace

std::vector<OpDefinition> pooling_ops() {
  using enum AttributeKind;
  return {
      {.type = "MaxPool",
       .description = R"((X) -> Y, window?
Training form: window has the shape of Y and is the index of the maximum within the kernel window (row-major; the
first of equals), u8 or for more than 256 elements i32.)",
       .signature = OpSignature{.attributes = {{"auto_pad", kString},
                                               {"ceil_mode", kInt},
                                               {"dilations", kInts},
                                               {"kernel_shape", kInts},
                                               {"pads", kInts},
                                               {"strides", kInts}}},
       .infer = infer_max_pool,
       .to_training = add_window_output,
       .differentiate = differentiate_max_pool,
       .flops = pool_flops,
       .images = {0}},
      {.type = "MaxPoolGrad", .description = "(dY, window) -> dX"},
      {.type = "AveragePool",
       .description = "(X) -> Y",
       .signature = OpSignature{.attributes = {{"auto_pad", kString},
                                               {"ceil_mode", kInt},
                                               {"count_include_pad", kInt},
                                               {"kernel_shape", kInts},
                                               {"pads", kInts},
                                               {"strides", kInts}}},
       .infer = infer_average_pool,
       .differentiate = differentiate_average_pool,
       .flops = pool_flops,
       .images = {0}},
      {.type = "AveragePoolGrad", .description = "(dY) -> dX"},
      {.type = "GlobalAveragePool",
       .description = "(X) -> Y",
       .signature = OpSignature{},
       .infer = infer_global_average_pool,
       .differentiate = differentiate_average_pool,
       .flops = global_pool_flops,
       .images = {0}},
      {.type = "GlobalAveragePoolGrad", .description = "(dY) -> dX"},
  };
}

}  // namespace rookery
