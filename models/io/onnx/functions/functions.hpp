// Model-local functions: operators of ours that the operator set of our files lacks, as functions of the
// domain "rookery" made of standard operators, so that any runtime runs them and our reader takes a call as
// one op. Internal to this module.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/graph/graph.hpp"
#include "models/io/onnx/format/format.hpp"

namespace onnx {
class FunctionProto;
}

namespace rookery {

constexpr const char* kOnnxDomain = "rookery";
constexpr std::int64_t kOnnxDomainVersion = 1;

// One form of an operator: what differs in its body has a name of its own.
struct OnnxFunction {
  std::string name;
  std::string type;                                 // of the op
  std::map<std::string, Attribute> implied;         // attributes of the op that the name stands for
  std::size_t inputs;                               // of the op
  std::vector<std::size_t> given;                   // those of them that a call has; the others are absent
  std::map<std::string, AttributeKind> attributes;  // of a call; all of them are always there
  std::size_t outputs = 1;                          // of the op; a call may lack the last of them
};

// nullptr when there is none of this name.
const OnnxFunction* find_onnx_function(const std::string& name);
// Whether there is one for this operator.
bool has_onnx_function(const std::string& type);
// The form of an op whose inputs have these types; nullptr where its operator needs no function.
const OnnxFunction* onnx_function_of(const Op& op, std::span<const TensorType> inputs);
// The attributes of a call of `function` for the op: the op's, or the defaults.
std::map<std::string, Attribute> call_attributes(const OnnxFunction& function, const Op& op,
                                                 std::span<const TensorType> inputs);
// The definition of the function as it stands in a file.
onnx::FunctionProto function_body(const OnnxFunction& function);

}  // namespace rookery
