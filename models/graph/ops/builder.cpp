// Values, constants and operators without parameters; what has windows or parameters is in
// builder_layers.cpp.
#include "models/graph/ops/builder.hpp"

#include <algorithm>
#include <utility>

namespace rookery {
namespace {

template <typename T>
Tensor tensor_of(const Shape& shape, const std::vector<T>& elements) {
  Tensor tensor(dtype_of<T>(), shape);
  ROOKERY_CHECK(std::ssize(elements) == shape.elements(), "{} elements for {}", elements.size(),
                shape.to_string());
  std::ranges::copy(elements, tensor.as<T>().begin());
  return tensor;
}

}  // namespace

ValueId GraphBuilder::append(Op op) {
  const std::string output = op.name + "_out";
  const OpId id = graph_.add_op(std::move(op), {output});
  return graph_.op(id).outputs[0];
}

Shape GraphBuilder::shape_of(ValueId value) const {
  return graph_.types(1)[value].shape;
}

ValueId GraphBuilder::input(const std::string& name, const Shape& sample_shape, DType dtype) {
  std::vector<std::int64_t> dims{kBatch};
  dims.insert(dims.end(), sample_shape.dims().begin(), sample_shape.dims().end());
  return graph_.add_input(name, {dtype, Shape(dims)});
}

ValueId GraphBuilder::relu(const std::string& name, ValueId x) {
  return append({.name = name, .type = "Relu", .inputs = {x}, .outputs = {}, .attributes = {}});
}

ValueId GraphBuilder::relu6(const std::string& name, ValueId x) {
  return apply(name, "Clip", {x}, {{"min", 0.0F}, {"max", 6.0F}});
}

ValueId GraphBuilder::global_avg_pool(const std::string& name, ValueId x) {
  return apply(name, "GlobalAveragePool", {x});
}

ValueId GraphBuilder::dropout(const std::string& name, ValueId x, float probability) {
  return append({.name = name,
                 .type = "Dropout",
                 .inputs = {x},
                 .outputs = {},
                 .attributes = {{"ratio", probability}}});
}

ValueId GraphBuilder::flatten(const std::string& name, ValueId x) {
  return append({.name = name,
                 .type = "Flatten",
                 .inputs = {x},
                 .outputs = {},
                 .attributes = {{"axis", std::int64_t{1}}}});
}

ValueId GraphBuilder::softmax(const std::string& name, ValueId x) {
  return append({.name = name,
                 .type = "Softmax",
                 .inputs = {x},
                 .outputs = {},
                 .attributes = {{"axis", std::int64_t{-1}}}});
}

ValueId GraphBuilder::leaky_relu(const std::string& name, ValueId x, float slope) {
  return apply(name, "LeakyRelu", {x}, {{"alpha", slope}});
}

ValueId GraphBuilder::elu(const std::string& name, ValueId x, float alpha) {
  return apply(name, "Elu", {x}, {{"alpha", alpha}});
}

ValueId GraphBuilder::gelu(const std::string& name, ValueId x, const std::string& approximate) {
  return apply(name, "Gelu", {x}, {{"approximate", approximate}});
}

ValueId GraphBuilder::sigmoid(const std::string& name, ValueId x) {
  return apply(name, "Sigmoid", {x});
}

ValueId GraphBuilder::tanh(const std::string& name, ValueId x) {
  return apply(name, "Tanh", {x});
}

ValueId GraphBuilder::silu(const std::string& name, ValueId x) {
  return mul(name, x, sigmoid(name + "_sigmoid", x));
}

ValueId GraphBuilder::add(const std::string& name, ValueId a, ValueId b) {
  return apply(name, "Add", {a, b});
}

ValueId GraphBuilder::sub(const std::string& name, ValueId a, ValueId b) {
  return apply(name, "Sub", {a, b});
}

ValueId GraphBuilder::mul(const std::string& name, ValueId a, ValueId b) {
  return apply(name, "Mul", {a, b});
}

ValueId GraphBuilder::div(const std::string& name, ValueId a, ValueId b) {
  return apply(name, "Div", {a, b});
}

ValueId GraphBuilder::matmul(const std::string& name, ValueId a, ValueId b) {
  return apply(name, "MatMul", {a, b});
}

ValueId GraphBuilder::attention(const std::string& name, ValueId q, ValueId k, ValueId v,
                                const AttentionOptions& options) {
  std::vector<ValueId> inputs{q, k, v};
  if (options.mask != kNoValue) inputs.push_back(options.mask);
  std::map<std::string, Attribute> attributes{{"num_heads", options.heads}};
  if (options.is_causal) attributes["is_causal"] = std::int64_t{1};
  if (options.dropout > 0) attributes["ratio"] = options.dropout;
  return apply(name, "Attention", std::move(inputs), std::move(attributes));
}

ValueId GraphBuilder::reshape(const std::string& name, ValueId x, const std::vector<std::int64_t>& shape) {
  return apply(name, "Reshape", {x}, {{"shape", shape}});
}

ValueId GraphBuilder::squeeze(const std::string& name, ValueId x, const std::vector<std::int64_t>& axes) {
  return apply(name, "Squeeze", {x}, {{"axes", axes}});
}

ValueId GraphBuilder::unsqueeze(const std::string& name, ValueId x, const std::vector<std::int64_t>& axes) {
  return apply(name, "Unsqueeze", {x}, {{"axes", axes}});
}

ValueId GraphBuilder::transpose(const std::string& name, ValueId x, const std::vector<std::int64_t>& perm) {
  return apply(name, "Transpose", {x}, {{"perm", perm}});
}

ValueId GraphBuilder::concat(const std::string& name, const std::vector<ValueId>& parts, std::int64_t axis) {
  return apply(name, "Concat", parts, {{"axis", axis}});
}

std::vector<ValueId> GraphBuilder::split(const std::string& name, ValueId x,
                                         const std::vector<std::int64_t>& sizes, std::int64_t axis) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < sizes.size(); ++i) names.push_back(name + "_out_" + std::to_string(i));
  const OpId id = graph_.add_op({.name = name,
                                 .type = "Split",
                                 .inputs = {x},
                                 .outputs = {},
                                 .attributes = {{"axis", axis}, {"split", sizes}}},
                                names);
  return graph_.op(id).outputs;
}

ValueId GraphBuilder::slice(const std::string& name, ValueId x, std::int64_t axis, std::int64_t begin,
                            std::int64_t end, std::int64_t step) {
  return apply(name, "Slice", {x},
               {{"starts", Integers{begin}},
                {"ends", Integers{end}},
                {"axes", Integers{axis}},
                {"steps", Integers{step}}});
}

ValueId GraphBuilder::gather(const std::string& name, ValueId data, ValueId indices, std::int64_t axis) {
  return apply(name, "Gather", {data, indices}, {{"axis", axis}});
}

ValueId GraphBuilder::where(const std::string& name, ValueId condition, ValueId a, ValueId b) {
  return apply(name, "Where", {condition, a, b});
}

ValueId GraphBuilder::cast(const std::string& name, ValueId x, DType to) {
  return apply(name, "Cast", {x}, {{"to", std::string(name_of(to))}});
}

ValueId GraphBuilder::upsample(const std::string& name, ValueId x, float factor, const std::string& mode) {
  std::vector<float> scales(shape_of(x).rank(), factor);
  scales[0] = scales[1] = 1;
  if (mode == "nearest") {
    return apply(name, "Resize", {x},
                 {{"scales", scales},
                  {"mode", mode},
                  {"coordinate_transformation_mode", std::string("asymmetric")},
                  {"nearest_mode", std::string("floor")}});
  }
  ROOKERY_CHECK(mode == "bilinear", "mode '{}'", mode);
  return apply(name, "Resize", {x}, {{"scales", scales}, {"mode", std::string("linear")}});
}

ValueId GraphBuilder::full(const std::string& name, const Shape& shape, float number) {
  return constant(name, shape, std::vector<float>(static_cast<std::size_t>(shape.elements()), number));
}

ValueId GraphBuilder::range(const std::string& name, std::int64_t begin, std::int64_t end,
                            std::int64_t step) {
  ROOKERY_CHECK(step != 0, "a step of 0");
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end; i += step) numbers.push_back(i);
  return constant(name, {std::ssize(numbers)}, numbers);
}

ValueId GraphBuilder::constant(const std::string& name, Tensor elements) {
  return graph_.add_constant(name, std::make_shared<const Tensor>(std::move(elements)));
}

ValueId GraphBuilder::constant(const std::string& name, const Shape& shape,
                               const std::vector<float>& elements) {
  return constant(name, tensor_of(shape, elements));
}

ValueId GraphBuilder::constant(const std::string& name, const Shape& shape,
                               const std::vector<std::int64_t>& elements) {
  return constant(name, tensor_of(shape, elements));
}

ValueId GraphBuilder::parameter(const std::string& name, const Shape& shape, Initializer initializer) {
  return graph_.add_parameter(name, {DType::kF32, shape}, initializer);
}

ValueId GraphBuilder::apply(const std::string& name, const std::string& type, std::vector<ValueId> inputs,
                            std::map<std::string, Attribute> attributes) {
  return append({.name = name,
                 .type = type,
                 .inputs = std::move(inputs),
                 .outputs = {},
                 .attributes = std::move(attributes)});
}

ValueId GraphBuilder::called(const std::string& name, ValueId x) {
  const OpId id = graph_.add_op(
      {.name = name, .type = "Identity", .inputs = {x}, .outputs = {}, .attributes = {}}, {name});
  return graph_.op(id).outputs[0];
}

Graph GraphBuilder::finish(ValueId output) {
  return finish(std::vector<ValueId>{output});
}

Graph GraphBuilder::finish(const std::vector<ValueId>& outputs) {
  for (const ValueId output : outputs) graph_.mark_output(output);
  return std::move(graph_);
}

}  // namespace rookery
