#include "models/io/onnx/format/format.hpp"

#include <onnx/onnx_pb.h>

#include <array>
#include <map>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/op_definition.hpp"

namespace rookery {
namespace {

constexpr std::array<int, kDTypes> kOnnxDTypes{onnx::TensorProto::FLOAT, onnx::TensorProto::DOUBLE,
                                               onnx::TensorProto::INT64, onnx::TensorProto::INT32,
                                               onnx::TensorProto::UINT8, onnx::TensorProto::BOOL};

}  // namespace

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

const ConstantInput* constant_input(const std::string& type, std::size_t position) {
  using enum AttributeKind;
  static const std::map<std::string, OpSignature> folded{
      {"ConstantOfShape", {.constant_inputs = {{0, {"input", kInts}}}}},
      {"Range", {.constant_inputs = {{0, {"start", kInt}}, {1, {"limit", kInt}}, {2, {"delta", kInt}}}}},
  };
  const auto found = folded.find(type);
  const OpSignature* signature = found != folded.end() ? &found->second : op_signature(type);
  return signature == nullptr ? nullptr : signature->constant_input(position);
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
