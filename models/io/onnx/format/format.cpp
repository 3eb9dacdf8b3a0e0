#include "models/io/onnx/format/format.hpp"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <array>

#include "models/base/error.hpp"

namespace rookery {
namespace {

constexpr std::array<int, kDTypes> kOnnxDTypes{onnx::TensorProto::FLOAT, onnx::TensorProto::DOUBLE,
                                               onnx::TensorProto::INT64, onnx::TensorProto::INT32,
                                               onnx::TensorProto::UINT8, onnx::TensorProto::BOOL};

}  // namespace

AttributeKind kind_of(const Attribute& attribute) {
  return static_cast<AttributeKind>(attribute.index());
}
static_assert(
    std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(AttributeKind::kFloats), Attribute>,
                   std::vector<float>>);

void set_attribute(onnx::AttributeProto& out, const std::string& key, const Attribute& attribute) {
  out.set_name(key);
  if (const auto* integer = std::get_if<std::int64_t>(&attribute)) {
    out.set_type(onnx::AttributeProto::INT);
    out.set_i(*integer);
  } else if (const auto* number = std::get_if<float>(&attribute)) {
    out.set_type(onnx::AttributeProto::FLOAT);
    out.set_f(*number);
  } else if (const auto* text = std::get_if<std::string>(&attribute)) {
    out.set_type(onnx::AttributeProto::STRING);
    out.set_s(*text);
  } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&attribute)) {
    out.set_type(onnx::AttributeProto::INTS);
    out.mutable_ints()->Assign(integers->begin(), integers->end());
  } else {
    const auto& numbers = std::get<std::vector<float>>(attribute);
    out.set_type(onnx::AttributeProto::FLOATS);
    out.mutable_floats()->Assign(numbers.begin(), numbers.end());
  }
}

const OnnxOperator* find_onnx_operator(const std::string& type) {
  using enum AttributeKind;
  constexpr std::size_t kMany = 1024;
  constexpr bool kAnyType = false;  // of floats_only
  static const std::map<std::string, OnnxOperator> table{
      {"Abs", {1, 1, {}}},
      {"Add", {2, 2, {}, 1, kAnyType}},
      {"AveragePool",
       {1,
        1,
        {{"auto_pad", kString},
         {"ceil_mode", kInt},
         {"count_include_pad", kInt},
         {"kernel_shape", kInts},
         {"pads", kInts},
         {"strides", kInts}}}},
      {"BatchNormalization", {5, 5, {{"epsilon", kFloat}, {"momentum", kFloat}}}},
      {"Clip", {1, 3, {}}},
      {"Conv",
       {2,
        3,
        {{"auto_pad", kString},
         {"dilations", kInts},
         {"group", kInt},
         {"kernel_shape", kInts},
         {"pads", kInts},
         {"strides", kInts}}}},
      {"ConvTranspose",
       {2,
        3,
        {{"auto_pad", kString},
         {"dilations", kInts},
         {"group", kInt},
         {"kernel_shape", kInts},
         {"output_padding", kInts},
         {"output_shape", kInts},
         {"pads", kInts},
         {"strides", kInts}}}},
      {"Cos", {1, 1, {}}},
      {"Div", {2, 2, {}, 1, kAnyType}},
      {"Dropout", {1, 2, {}}},
      {"Elu", {1, 1, {{"alpha", kFloat}}}},
      {"Erf", {1, 1, {}}},
      {"Exp", {1, 1, {}}},
      {"Flatten", {1, 1, {{"axis", kInt}}, 1, kAnyType}},
      {"Gemm", {2, 3, {{"alpha", kFloat}, {"beta", kFloat}, {"transA", kInt}, {"transB", kInt}}}},
      {"GlobalAveragePool", {1, 1, {}}},
      {"HardSigmoid", {1, 1, {{"alpha", kFloat}, {"beta", kFloat}}}},
      {"HardSwish", {1, 1, {}}},
      {"Identity", {1, 1, {}, 1, kAnyType}},
      {"InstanceNormalization", {3, 3, {{"epsilon", kFloat}}}},
      {"LayerNormalization", {2, 3, {{"axis", kInt}, {"epsilon", kFloat}}}},
      {"LeakyRelu", {1, 1, {{"alpha", kFloat}}}},
      {"Log", {1, 1, {}}},
      {"LogSoftmax", {1, 1, {{"axis", kInt}}}},
      {"MatMul", {2, 2, {}}},
      {"MaxPool",
       {1,
        1,
        {{"auto_pad", kString},
         {"ceil_mode", kInt},
         {"dilations", kInts},
         {"kernel_shape", kInts},
         {"pads", kInts},
         {"strides", kInts}}}},
      {"Mul", {2, 2, {}, 1, kAnyType}},
      {"Neg", {1, 1, {}}},
      {"PRelu", {2, 2, {}}},
      {"Pow", {2, 2, {}}},
      {"ReduceL1", {1, 1, {{"axes", kInts}, {"keepdims", kInt}}}},
      {"ReduceL2", {1, 1, {{"axes", kInts}, {"keepdims", kInt}}}},
      {"ReduceMax", {1, 1, {{"axes", kInts}, {"keepdims", kInt}}}},
      {"ReduceMean", {1, 1, {{"axes", kInts}, {"keepdims", kInt}}}},
      {"ReduceSum", {1, 2, {{"keepdims", kInt}}}},
      {"Relu", {1, 1, {}}},
      {"Sigmoid", {1, 1, {}}},
      {"Sin", {1, 1, {}}},
      {"Softmax", {1, 1, {{"axis", kInt}}}},
      {"Softplus", {1, 1, {}}},
      {"Sqrt", {1, 1, {}}},
      {"Sub", {2, 2, {}, 1, kAnyType}},
      {"Tanh", {1, 1, {}}},
      {"And", {2, 2, {}, 1, kAnyType}},
      {"Cast", {1, 1, {{"to", kType}}, 1, kAnyType}},
      {"CumSum", {2, 2, {{"exclusive", kInt}, {"reverse", kInt}}, 1, kAnyType}},
      {"Concat", {1, kMany, {{"axis", kInt}}, 1, kAnyType}},
      {"Equal", {2, 2, {}, 1, kAnyType}},
      {"Expand", {2, 2, {}, 1, kAnyType}},
      {"Gather", {2, 2, {{"axis", kInt}}, 1, kAnyType}},
      {"GatherElements", {2, 2, {{"axis", kInt}}, 1, kAnyType}},
      {"GatherND", {2, 2, {{"batch_dims", kInt}}, 1, kAnyType}},
      {"Greater", {2, 2, {}, 1, kAnyType}},
      {"GreaterOrEqual", {2, 2, {}, 1, kAnyType}},
      {"Less", {2, 2, {}, 1, kAnyType}},
      {"LessOrEqual", {2, 2, {}, 1, kAnyType}},
      {"Max", {1, kMany, {}, 1, kAnyType}},
      {"Min", {1, kMany, {}, 1, kAnyType}},
      {"Not", {1, 1, {}, 1, kAnyType}},
      {"Or", {2, 2, {}, 1, kAnyType}},
      {"Pad", {2, 3, {{"mode", kString}}, 1, kAnyType}},
      {"Reshape", {2, 2, {{"allowzero", kInt}}, 1, kAnyType}},
      {"Resize",
       {3, 3, {{"coordinate_transformation_mode", kString}, {"mode", kString}, {"nearest_mode", kString}}}},
      {"ScatterND", {3, 3, {{"reduction", kString}}, 1, kAnyType}},
      {"Slice", {3, 5, {}, 1, kAnyType}},
      {"Split", {1, 2, {{"axis", kInt}}, kMany, kAnyType}},
      {"Squeeze", {2, 2, {}, 1, kAnyType}},
      {"Tile", {2, 2, {}, 1, kAnyType}},
      {"Transpose", {1, 1, {{"perm", kInts}}, 1, kAnyType}},
      {"Trilu", {1, 2, {{"upper", kInt}}, 1, kAnyType}},
      {"Unsqueeze", {2, 2, {}, 1, kAnyType}},
      {"Where", {3, 3, {}, 1, kAnyType}},
  };
  const auto found = table.find(type);
  return found == table.end() ? nullptr : &found->second;
}

const ConstantInput* constant_input(const std::string& type, std::size_t position) {
  using enum AttributeKind;
  struct Inputs {
    std::size_t first;
    std::vector<ConstantInput> inputs;
  };
  static const std::map<std::string, Inputs> table{
      {"Clip", {1, {{"min", kFloat}, {"max", kFloat}}}},
      {"ConstantOfShape", {0, {{"input", kInts}}}},
      {"CumSum", {1, {{"axis", kInt}}}},
      {"Dropout", {1, {{"ratio", kFloat}}}},
      {"Expand", {1, {{"shape", kInts}}}},
      {"Pad", {1, {{"pads", kInts}, {"constant_value", kFloat}}}},
      {"Range", {0, {{"start", kInt}, {"limit", kInt}, {"delta", kInt}}}},
      {"ReduceSum", {1, {{"axes", kInts}}}},
      {"Reshape", {1, {{"shape", kInts}}}},
      {"Resize", {1, {{"roi", kFloats}, {"scales", kFloats}}}},
      {"Slice", {1, {{"starts", kInts}, {"ends", kInts}, {"axes", kInts}, {"steps", kInts}}}},
      {"Split", {1, {{"split", kInts}}}},
      {"Squeeze", {1, {{"axes", kInts}}}},
      {"Tile", {1, {{"repeats", kInts}}}},
      {"Trilu", {1, {{"k", kInt}}}},
      {"Unsqueeze", {1, {{"axes", kInts}}}},
  };
  const auto found = table.find(type);
  if (found == table.end() || position < found->second.first) return nullptr;
  const std::size_t at = position - found->second.first;
  return at < found->second.inputs.size() ? &found->second.inputs[at] : nullptr;
}

int onnx_dtype(DType type) {
  return kOnnxDTypes.at(static_cast<std::size_t>(type));
}

DType dtype_from_onnx(int type) {
  for (std::size_t i = 0; i < kOnnxDTypes.size(); ++i) {
    if (kOnnxDTypes.at(i) == type) return static_cast<DType>(i);
  }
  throw DataError(fmt::format("element type {} is not supported", type));
}

std::string tracked_name(const std::string& running_mean) {
  const std::string_view suffix = kMeanSuffix;
  if (!running_mean.ends_with(suffix)) return {};
  return running_mean.substr(0, running_mean.size() - suffix.size()) + kTrackedSuffix;
}

}  // namespace rookery
