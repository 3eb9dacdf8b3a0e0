#include "models/io/onnx/functions/inline.hpp"

#include <onnx/onnx_pb.h>

#include <map>
#include <string>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/io/onnx/format/format.hpp"
#include "models/io/onnx/functions/functions.hpp"

namespace rookery {
namespace {

// Bounds on what a small file can become. PyTorch's functions call each other a few deep, and the largest
// models have tens of thousands of nodes.
constexpr int kMaxDepth = 16;
constexpr int kMaxNodes = 1 << 18;

using Renamed = std::map<std::string, std::string>;

class Inliner {
 public:
  explicit Inliner(onnx::ModelProto& model) : graph_(*model.mutable_graph()) {
    for (const onnx::FunctionProto& function : model.functions())
      if (function.domain() != kOnnxDomain)
        functions_.emplace(std::pair(function.domain(), function.name()), &function);
  }

  void run() {
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    nodes.Swap(graph_.mutable_node());
    for (onnx::NodeProto& node : nodes) add(std::move(node), 0);
  }

 private:
  void add(onnx::NodeProto node, int depth) {
    const auto found = functions_.find(std::pair(node.domain(), node.op_type()));
    if (found == functions_.end()) {
      if (graph_.node_size() == kMaxNodes)
        throw DataError(fmt::format("its functions make more than {} nodes", kMaxNodes));
      *graph_.add_node() = std::move(node);
      return;
    }
    if (depth == kMaxDepth)
      throw DataError(fmt::format("its function {} has no end", in_quotes(node.op_type())));
    add_body(*found->second, node, depth);
  }

  void add_body(const onnx::FunctionProto& function, const onnx::NodeProto& call, int depth) {
    Renamed names;
    for (int i = 0; i < function.input_size(); ++i)
      names[function.input(i)] = i < call.input_size() ? call.input(i) : std::string();
    for (int i = 0; i < function.output_size() && i < call.output_size(); ++i) {
      if (!call.output(i).empty()) names[function.output(i)] = call.output(i);
    }
    if (calls_ == kMaxNodes)
      throw DataError(fmt::format("its functions are called more than {} times", kMaxNodes));
    const std::string prefix =
        fmt::format("{}.{}.", call.name().empty() ? call.op_type() : call.name(), calls_++);
    for (const onnx::NodeProto& inner : function.node()) {
      onnx::NodeProto node = inner;
      node.set_name(prefix + node.name());
      rename(node, names, prefix);
      set_attributes(node, call);
      add(std::move(node), depth + 1);
    }
  }

  static void rename(onnx::NodeProto& node, Renamed& names, const std::string& prefix) {
    const auto new_name = [&](std::string& name) {
      if (!name.empty()) name = names.emplace(name, prefix + name).first->second;
    };
    for (std::string& input : *node.mutable_input()) new_name(input);
    for (std::string& output : *node.mutable_output()) new_name(output);
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (!attribute.has_g()) continue;
      for (onnx::NodeProto& inner : *attribute.mutable_g()->mutable_node()) rename(inner, names, prefix);
      for (onnx::TensorProto& tensor : *attribute.mutable_g()->mutable_initializer())
        new_name(*tensor.mutable_name());
      for (onnx::ValueInfoProto& output : *attribute.mutable_g()->mutable_output())
        new_name(*output.mutable_name());
    }
  }

  // Attributes of the call where the body refers to them; those that the call leaves out are left out.
  static void set_attributes(onnx::NodeProto& node, const onnx::NodeProto& call) {
    google::protobuf::RepeatedPtrField<onnx::AttributeProto> given;
    given.Swap(node.mutable_attribute());
    for (const onnx::AttributeProto& attribute : given) {
      if (attribute.ref_attr_name().empty()) {
        *node.add_attribute() = attribute;
        continue;
      }
      for (const onnx::AttributeProto& of_call : call.attribute()) {
        if (of_call.name() != attribute.ref_attr_name()) continue;
        *node.add_attribute() = of_call;
        node.mutable_attribute(node.attribute_size() - 1)->set_name(attribute.name());
      }
    }
  }

  onnx::GraphProto& graph_;  // of the model, which outlives the inliner
  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto*> functions_;
  int calls_ = 0;
};

}  // namespace

void inline_functions(onnx::ModelProto& model) {
  if (model.functions_size() > 0) Inliner(model).run();
}

}  // namespace rookery
