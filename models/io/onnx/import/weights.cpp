#include "models/io/onnx/import/weights.hpp"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/io/onnx/exporters/names.hpp"
#include "models/io/onnx/format/constants.hpp"
#include "models/io/onnx/format/parse.hpp"

namespace rookery {
namespace {

Initializer uniform(double bound) {
  return {.kind = Initializer::Kind::kUniform, .bound = static_cast<float>(bound)};
}

double fan_in(const Shape& weight) {
  return static_cast<double>(weight.elements()) / static_cast<double>(weight[0]);
}

bool is_weight_of(const std::string& type, int position) {
  static const std::set<std::string> layers{
      "BatchNormalization", "Conv", "ConvTranspose", "Gemm", "GroupNormalization", "InstanceNormalization",
      "LayerNormalization", "PRelu"};
  return (position > 0 && layers.contains(type)) || (position == 0 && type == "Gather");
}

// "fc1.weight", not "input.1".
bool is_module_name(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot != std::string::npos && name.find_first_not_of("0123456789", dot + 1) != std::string::npos &&
         !is_made_up(name);
}

// "rnn.weight_hh_l0_reverse" of it or of "rnn.bias_ih_l0_reverse", whose layer it is; empty of other names.
std::string state_weight_beside(const std::string& name) {
  const auto own = name.rfind('.') + 1;  // 0 where there is no dot
  for (const char* kind : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}) {
    const std::string_view prefix = kind;
    if (name.compare(own, prefix.size() + 2, std::string(prefix) + "_l") == 0)
      return name.substr(0, own) + "weight_hh" + name.substr(own + prefix.size());
  }
  return {};
}

}  // namespace

TensorType type_of_input(const onnx::ValueInfoProto& input) {
  const onnx::TypeProto::Tensor& tensor = input.type().tensor_type();
  if (!input.type().has_tensor_type() || !tensor.has_shape()) throw DataError("is no tensor with a shape");
  std::vector<std::int64_t> dims;
  for (const onnx::TensorShapeProto::Dimension& dim : tensor.shape().dim())
    dims.push_back(dim.has_dim_value() ? checked_dim(dim.dim_value()) : kBatch);
  return {dtype_from_onnx(tensor.elem_type()), Shape(dims)};
}

Tensor read_tensor(const onnx::TensorProto& proto, ExternalData& external) {
  std::vector<std::int64_t> dims;
  for (const std::int64_t dim : proto.dims()) dims.push_back(dim == 0 ? 0 : checked_dim(dim));
  return tensor_from(proto, {dtype_from_onnx(proto.data_type()), Shape(dims)}, external);
}

std::set<std::string> parameters_among_inputs(const onnx::GraphProto& graph) {
  std::set<std::string> inputs, parameters;
  for (const onnx::ValueInfoProto& input : graph.input()) inputs.insert(input.name());
  for (const onnx::NodeProto& node : graph.node()) {
    for (int i = 0; i < node.input_size(); ++i) {
      if (inputs.contains(node.input(i)) && is_weight_of(node.op_type(), i) && is_module_name(node.input(i)))
        parameters.insert(node.input(i));
    }
  }
  std::ranges::copy_if(inputs, std::inserter(parameters, parameters.end()),
                       [](const std::string& name) { return !state_weight_beside(name).empty(); });
  if (!parameters.empty())
    std::ranges::copy_if(inputs, std::inserter(parameters, parameters.end()), is_module_name);
  return parameters;
}

Initializer usual_initializer(const std::string& name, const Shape& shape,
                              const std::set<std::string>& readers,
                              const std::map<std::string, TensorType>& all) {
  const Initializer ones{.kind = Initializer::Kind::kOnes};
  if (readers.contains("Gather")) return {.kind = Initializer::Kind::kNormal, .bound = 1};
  if (readers.contains("PRelu")) return {.kind = Initializer::Kind::kConstant, .bound = 0.25F};
  const auto state = all.find(state_weight_beside(name));
  if (state != all.end() && state->second.shape.rank() == 2)
    return uniform(1 / std::sqrt(static_cast<double>(state->second.shape[-1])));
  if (name.ends_with("running_var")) return ones;
  if (name.ends_with("in_proj_weight") && shape.rank() == 2)
    return uniform(std::sqrt(6.0 / static_cast<double>(shape[0] + shape[1])));
  if (name.ends_with("weight")) return shape.rank() < 2 ? ones : uniform(1 / std::sqrt(fan_in(shape)));
  const auto weight = all.find(weight_beside(name));
  const bool has_fan_in = weight != all.end() && weight->second.shape.rank() > 1 &&
                          !name.ends_with("in_proj_bias") && !name.ends_with("out_proj.bias");
  return has_fan_in ? uniform(1 / std::sqrt(fan_in(weight->second.shape))) : Initializer();
}

}  // namespace rookery
