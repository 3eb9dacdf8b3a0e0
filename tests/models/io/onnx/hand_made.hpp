// A small model that a test puts together by hand, one node after the other.
#pragma once

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <string>
#include <vector>

#include "models/io/onnx/onnx.hpp"
#include "tests/models/io/files.hpp"

namespace rookery::onnx_tests {

// x [batch, 4] -> y [batch, 4]; tests add all nodes.
class HandMade : public testing::Test {
 protected:
  HandMade() {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(17);
    onnx::GraphProto& graph = *model_.mutable_graph();
    add_type(*graph.add_input(), "x", {-1, 4});
    add_type(*graph.add_output(), "y", {-1, 4});
  }

  static void add_type(onnx::ValueInfoProto& info, const std::string& name,
                       const std::vector<std::int64_t>& dims) {
    info.set_name(name);
    auto& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(onnx::TensorProto::FLOAT);
    for (const std::int64_t dim : dims) {
      auto& out = *tensor.mutable_shape()->add_dim();
      dim < 0 ? out.set_dim_param("n") : out.set_dim_value(dim);
    }
  }

  onnx::NodeProto& add(const std::string& type, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs) {
    onnx::NodeProto& node = *model_.mutable_graph()->add_node();
    node.set_op_type(type);
    node.set_name(type + std::to_string(model_.graph().node_size()));
    for (const std::string& input : inputs) node.add_input(input);
    for (const std::string& output : outputs) node.add_output(output);
    return node;
  }

  static void set_integer(onnx::NodeProto& node, const std::string& key, std::int64_t number) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.name() == key) return attribute.set_i(number);
    }
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(key);
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(number);
  }

  static void set_text(onnx::NodeProto& node, const std::string& key, const std::string& text) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(key);
    attribute.set_type(onnx::AttributeProto::STRING);
    attribute.set_s(text);
  }

  void add_integers(const std::string& name, const std::vector<std::int64_t>& numbers) {
    onnx::TensorProto& tensor = *model_.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::INT64);
    tensor.add_dims(std::ssize(numbers));
    tensor.mutable_int64_data()->Assign(numbers.begin(), numbers.end());
  }

  void add_floats(const std::string& name, const std::vector<std::int64_t>& dims, float number) {
    onnx::TensorProto& tensor = *model_.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    std::int64_t count = 1;
    for (const std::int64_t dim : dims) {
      tensor.add_dims(dim);
      count *= dim;
    }
    for (std::int64_t i = 0; i < count; ++i) tensor.add_float_data(number);
  }

  OnnxModel import() {
    overwrite(path_, model_.SerializeAsString());
    return import_onnx(path_);
  }
  std::string error() {
    return data_error([&] { import(); });
  }

  onnx::ModelProto model_;
  ScratchFolder folder_;
  std::filesystem::path path_ = folder_.path() / "model.onnx";
};

}  // namespace rookery::onnx_tests
