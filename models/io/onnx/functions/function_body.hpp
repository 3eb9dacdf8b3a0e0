// Writes the bodies of the functions that our files have (functions.hpp). Internal to this module.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/io/onnx/format/format.hpp"

namespace rookery {

// Writes the nodes of a function; each gives back the name of its output, or of several.
class FunctionBody {
 public:
  using Name = std::string;

  explicit FunctionBody(onnx::FunctionProto& out) : out_(out) {}

  Name input(const Name& name) {
    out_.add_input(name);
    return name;
  }
  void attribute(const Name& name) { out_.add_attribute(name); }
  void output(const Name& name, const Name& as = "y") {
    out_.add_output(as);
    onnx::NodeProto& node = add("Identity", {name});
    node.add_output(as);
  }

  Name node(const std::string& type, const std::vector<Name>& inputs,
            const std::map<std::string, Attribute>& attributes = {}) {
    onnx::NodeProto& node = add(type, inputs);
    for (const auto& [key, value] : attributes) set_attribute(*node.add_attribute(), key, value);
    return make_output(node);
  }
  // A node of `outputs` outputs, some of whose attributes are those of the call.
  std::vector<Name> nodes(const std::string& type, const std::vector<Name>& inputs, std::size_t outputs,
                          const std::map<std::string, Attribute>& attributes,
                          const std::map<std::string, AttributeKind>& of_call = {}) {
    onnx::NodeProto& node = add(type, inputs);
    for (const auto& [key, value] : attributes) set_attribute(*node.add_attribute(), key, value);
    for (const auto& [key, kind] : of_call) refer(*node.add_attribute(), key, kind, key);
    std::vector<Name> made;
    for (std::size_t i = 0; i < outputs; ++i) made.push_back(make_output(node));
    return made;
  }
  // LSTM, GRU or RNN, whose functions are the usual ones but for an RNN that `rectifies`.
  std::vector<Name> recurrent(const std::string& type, const std::vector<Name>& inputs, std::size_t outputs,
                              bool rectifies, const std::map<std::string, AttributeKind>& of_call) {
    std::vector<Name> made = nodes(type, inputs, outputs, {}, of_call);
    if (rectifies) {
      onnx::AttributeProto& functions = *out_.mutable_node(out_.node_size() - 1)->add_attribute();
      functions.set_name("activations");
      functions.set_type(onnx::AttributeProto::STRINGS);
      functions.add_strings("Relu");
    }
    return made;
  }
  // Equal parts along an axis.
  std::vector<Name> split(const Name& x, std::size_t parts, std::int64_t axis) {
    return nodes("Split", {x}, parts, {{"axis", axis}});
  }
  Name number(double value) { return node("Constant", {}, {{"value_float", static_cast<float>(value)}}); }
  Name integers(std::vector<std::int64_t> values) {
    return node("Constant", {}, {{"value_ints", std::move(values)}});
  }
  // A float or an integer, an attribute of the call.
  Name given(const std::string& attribute, AttributeKind kind) {
    onnx::NodeProto& node = add("Constant", {});
    refer(*node.add_attribute(), kind == AttributeKind::kFloat ? "value_float" : "value_int", kind,
          attribute);
    return make_output(node);
  }
  // An integer attribute as a vector of one.
  Name given_size(const std::string& attribute) {
    return node("Reshape", {given(attribute, AttributeKind::kInt), integers({1})});
  }
  // 0 keeps a dimension, -1 is the rest.
  Name shape(const std::vector<Name>& sizes) { return node("Concat", sizes, {{"axis", std::int64_t{0}}}); }
  Name transpose(const Name& x, std::vector<std::int64_t> perm) {
    return node("Transpose", {x}, {{"perm", std::move(perm)}});
  }
  // x cast to bool.
  Name boolean(const Name& x) {
    return node("Cast", {x}, {{"to", static_cast<std::int64_t>(onnx::TensorProto::BOOL)}});
  }

 private:
  // An attribute of a node that is one of the call's: a number or a text.
  static void refer(onnx::AttributeProto& out, const std::string& key, AttributeKind kind,
                    const std::string& attribute) {
    const bool is_float = kind == AttributeKind::kFloat;
    out.set_name(key);
    out.set_type(is_float                         ? onnx::AttributeProto::FLOAT
                 : kind == AttributeKind::kString ? onnx::AttributeProto::STRING
                                                  : onnx::AttributeProto::INT);
    out.set_ref_attr_name(attribute);
  }
  onnx::NodeProto& add(const std::string& type, const std::vector<Name>& inputs) {
    onnx::NodeProto& node = *out_.add_node();
    node.set_op_type(type);
    for (const Name& input : inputs) node.add_input(input);
    return node;
  }
  Name make_output(onnx::NodeProto& node) {
    Name name = "t" + std::to_string(values_++);
    node.add_output(name);
    return name;
  }

  onnx::FunctionProto& out_;  // outlives the body: both live in function_body()
  int values_ = 0;
};

}  // namespace rookery
