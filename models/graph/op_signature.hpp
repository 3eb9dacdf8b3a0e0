// The signature of an operator: what it looks like in an ONNX file of operator set 17
// (https://onnx.ai/onnx/operators/).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

// The kind of value that an attribute has. kType is the name of a dtype in a Graph ("f32") and a
// TensorProto.DataType in a file; the others are the alternatives of Attribute, in their order.
enum class AttributeKind : std::uint8_t { kInt, kFloat, kString, kInts, kFloats, kType };

// The kind of this value; never kType, which is a text here.
inline AttributeKind kind_of(const Attribute& attribute) {
  return static_cast<AttributeKind>(attribute.index());
}
static_assert(
    std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(AttributeKind::kFloats), Attribute>,
                   std::vector<float>>);

// An input that is a constant tensor in a file and an attribute of the op in a Graph. As a tensor kInt is
// i64[], kInts i64[n], kFloat f32[] and kFloats f32[n].
struct ConstantInput {
  std::string key;
  AttributeKind kind;
};

struct OpSignature {
  struct Count {
    std::size_t least = 1;
    std::size_t most = 1;
  };

  Count inputs = {};  // constant inputs included
  std::map<std::string, AttributeKind> attributes = {};
  std::map<std::size_t, ConstantInput> constant_inputs = {};  // by their positions among the inputs
  std::size_t most_outputs = 1;
  // Inputs may have other types than f32; OpDefinition::infer then knows which ones.
  bool any_type = false;

  // The constant input at this position; nullptr where the input is a value.
  const ConstantInput* constant_input(std::size_t position) const {
    const auto found = constant_inputs.find(position);
    return found == constant_inputs.end() ? nullptr : &found->second;
  }
};

// The number of inputs, or outputs, that an operator takes which takes any number of them. A bound, so that
// files cannot ask for more; no model comes near it.
constexpr std::size_t kManyTensors = 1024;

}  // namespace rookery
