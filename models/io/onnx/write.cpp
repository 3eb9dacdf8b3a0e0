// Graph to ONNX.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/op_definition.hpp"
#include "models/io/onnx/format/format.hpp"
#include "models/io/onnx/functions/functions.hpp"
#include "models/io/onnx/onnx.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "models/tensor/dtype_named.hpp"

namespace rookery {
namespace {

class Writer {
 public:
  Writer(const Graph& graph, const WeightsFiles& weights)
      : graph_(graph), of_two_(graph.types(2)), of_three_(graph.types(3)) {
    for (const auto& [file, extents] : weights) {
      for (const auto& [name, extent] : extents) places_.insert_or_assign(name, Place{file, extent});
    }
  }

  onnx::ModelProto model(const Metadata& metadata) {
    onnx::ModelProto model;
    model.set_ir_version(kOnnxIrVersion);
    model.set_producer_name("rookery");
    onnx::OperatorSetIdProto& opset = *model.add_opset_import();
    opset.set_domain("");
    opset.set_version(kOnnxOpset);
    const auto describe = [&](const std::string& key, const std::string& value) {
      onnx::StringStringEntryProto& property = *model.add_metadata_props();
      property.set_key(key);
      property.set_value(value);
    };
    describe(kOnnxVersionKey, std::to_string(kOnnxNewestVersion));
    for (const auto& [key, value] : metadata) describe(key, value);
    out_ = model.mutable_graph();
    out_->set_name("rookery");
    for (const Op& op : graph_.ops()) add_node(op);
    add_values();
    for (const std::string& name : functions_)
      *model.add_functions() = function_body(*find_onnx_function(name));
    if (!functions_.empty()) {
      onnx::OperatorSetIdProto& own = *model.add_opset_import();
      own.set_domain(kOnnxDomain);
      own.set_version(kOnnxDomainVersion);
    }
    return model;
  }

 private:
  struct Place {
    std::string file;
    TensorExtent extent;
  };

  void add_node(const Op& op) {
    const OpSignature* known = op_signature(op.type);
    const OnnxFunction* function = onnx_function_of(op, input_types(op));
    if (known == nullptr && function == nullptr) {
      left_out_.insert(op.outputs.begin(), op.outputs.end());
      return;
    }
    if (op.outputs.size() > (function != nullptr ? function->outputs : known->most_outputs)) {
      throw ConfigError(fmt::format("op '{}' ({}) has {} outputs: only graphs for inference can be written",
                                    op.name, op.type, op.outputs.size()));
    }
    onnx::NodeProto& node = *out_->add_node();
    node.set_name(op.name);
    if (function != nullptr) {
      for (const ValueId output : op.outputs) node.add_output(graph_.value(output).name);
      add_call(op, *function, node);
      return;
    }
    node.set_op_type(op.type);
    add_inputs(op, *known, node);
    for (const ValueId output : op.outputs) node.add_output(graph_.value(output).name);
    for (const auto& [key, attribute] : op.attributes) {
      if (is_constant_input(*known, key)) continue;
      const auto found = known->attributes.find(key);
      if (found != known->attributes.end() && found->second == AttributeKind::kType) {
        set_attribute(*node.add_attribute(), key,
                      std::int64_t{onnx_dtype(dtype_named(op.text(key, "")).value())});
        continue;
      }
      if (found == known->attributes.end() || found->second != kind_of(attribute)) {
        throw ConfigError(
            fmt::format("op '{}' ({}): ONNX has no attribute '{}' of this kind", op.name, op.type, key));
      }
      set_attribute(*node.add_attribute(), key, attribute);
    }
  }

  std::vector<TensorType> input_types(const Op& op) const {
    std::vector<TensorType> types;
    for (const ValueId input : op.inputs) {
      types.push_back(input == kNoValue ? TensorType{} : of_two_[input]);
    }
    return types;
  }

  void add_call(const Op& op, const OnnxFunction& function, onnx::NodeProto& node) {
    node.set_domain(kOnnxDomain);
    node.set_op_type(function.name);
    functions_.insert(function.name);
    for (const std::size_t i : function.given) {
      used_.insert(op.inputs[i]);
      node.add_input(graph_.value(op.inputs[i]).name);
    }
    for (const auto& [key, attribute] : call_attributes(function, op, input_types(op))) {
      set_attribute(*node.add_attribute(), key, attribute);
    }
  }

  void add_inputs(const Op& op, const OpSignature& known, onnx::NodeProto& node) {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const ValueId input = op.inputs[i];
      if (input != kNoValue) used_.insert(input);
      if (op.type == "BatchNormalization" && i == kBatchNormTracked) continue;
      node.add_input(input == kNoValue ? "" : graph_.value(input).name);
    }
    for (std::size_t i = op.inputs.size(); i < known.inputs.most; ++i) {
      const ConstantInput* input = known.constant_input(i);
      if (input == nullptr) break;
      const auto attribute = op.attributes.find(input->key);
      if (attribute == op.attributes.end()) continue;
      if (kind_of(attribute->second) != input->kind) {
        throw ConfigError(
            fmt::format("op '{}' ({}): attribute '{}' has the wrong type", op.name, op.type, input->key));
      }
      while (std::cmp_less(node.input_size(), i)) node.add_input("");
      node.add_input(add_constant(op.name, input->key, attribute->second));
    }
  }

  static bool is_constant_input(const OpSignature& known, const std::string& key) {
    return std::ranges::any_of(known.constant_inputs,
                               [&](const auto& constant) { return constant.second.key == key; });
  }

  // A constant of the file that is no value of the graph.
  std::string add_constant(const std::string& op, const std::string& key, const Attribute& attribute) {
    std::string name = fmt::format("{}.{}", op, key);
    if (graph_.find(name)) throw ConfigError(fmt::format("the name '{}' is taken by a value", name));
    onnx::TensorProto& tensor = *out_->add_initializer();
    tensor.set_name(name);
    const auto set = [&](DType dtype, const auto* elements, std::size_t count) {
      tensor.set_data_type(onnx_dtype(dtype));
      tensor.set_raw_data(elements, count * bytes_of(dtype));
    };
    if (const auto* integer = std::get_if<std::int64_t>(&attribute)) {
      set(DType::kI64, integer, 1);
    } else if (const auto* number = std::get_if<float>(&attribute)) {
      set(DType::kF32, number, 1);
    } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&attribute)) {
      tensor.add_dims(std::ssize(*integers));
      set(DType::kI64, integers->data(), integers->size());
    } else {
      const auto& numbers = std::get<std::vector<float>>(attribute);
      tensor.add_dims(std::ssize(numbers));
      set(DType::kF32, numbers.data(), numbers.size());
    }
    return name;
  }

  // Inputs that a node uses, outputs that a node makes, all state and all constants.
  void add_values() {
    for (const ValueId id : graph_.inputs()) {
      if (used_.contains(id)) describe(id, *out_->add_input());
    }
    for (const ValueId id : graph_.outputs()) {
      if (graph_.value(id).producer != kNoOp && !left_out_.contains(id)) describe(id, *out_->add_output());
    }
    for (std::size_t id = 0; id < graph_.values().size(); ++id) {
      const Value& value = graph_.values()[id];
      if (value.kind == ValueKind::kInput || value.kind == ValueKind::kActivation) continue;
      if (!used_.contains(static_cast<ValueId>(id))) {
        throw ConfigError(fmt::format("'{}' is used by no op of the graph", value.name));
      }
      add_initializer(value);
    }
  }

  void describe(ValueId id, onnx::ValueInfoProto& info) const {
    const TensorType& of_two = of_two_[id];
    const TensorType& of_three = of_three_[id];
    info.set_name(graph_.value(id).name);
    onnx::TypeProto::Tensor& type = *info.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx_dtype(of_two.dtype));
    onnx::TensorShapeProto& shape = *type.mutable_shape();
    for (int axis = 0; axis < of_two.shape.rank(); ++axis) {
      onnx::TensorShapeProto::Dimension& dim = *shape.add_dim();
      if (of_two.shape[axis] == of_three.shape[axis]) {
        dim.set_dim_value(of_two.shape[axis]);
      } else if (of_two.shape[axis] == 2 && of_three.shape[axis] == 3) {
        dim.set_dim_param(kOnnxBatch);
      }  // a multiple of the batch: left open
    }
  }

  void add_initializer(const Value& value) {
    onnx::TensorProto& tensor = *out_->add_initializer();
    tensor.set_name(value.name);
    tensor.set_data_type(onnx_dtype(value.type.dtype));
    for (const std::int64_t dim : value.type.shape.dims()) tensor.add_dims(dim);
    if (value.kind == ValueKind::kConstant) {
      const auto bytes = value.data->view().bytes();
      tensor.set_raw_data(bytes.data(), bytes.size());
      return;
    }
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    if (value.fixed) tensor.set_doc_string(kOnnxFixed);
    const auto place = places_.find(value.name);
    if (place == places_.end())
      throw ConfigError(fmt::format("'{}' is in none of the files of weights", value.name));
    const auto& [file, extent] = place->second;
    const auto add = [&](const char* key, std::string text) {
      onnx::StringStringEntryProto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(std::move(text));
    };
    add("location", file);
    add("offset", std::to_string(extent.offset));
    add("length", std::to_string(extent.bytes));
  }

  const Graph& graph_;                   // outlives the writer: both live in write_onnx()
  std::map<std::string, Place> places_;  // by tensor
  std::vector<TensorType> of_two_, of_three_;
  onnx::GraphProto* out_ = nullptr;  // of the model under construction in model()
  std::set<ValueId> used_;
  std::set<ValueId> left_out_;
  std::set<std::string> functions_;  // that are called
};

// Losses, and what only they read, have no place in a file; a value that they make must not be read by
// an op that stays.
void check_left_out(const Graph& graph) {
  std::set<ValueId> made;
  for (const Op& op : graph.ops()) {
    if (op_definition(op.type).is_loss) {
      made.insert(op.outputs.begin(), op.outputs.end());
      continue;
    }
    const bool is_known = op_signature(op.type) != nullptr || has_onnx_function(op.type);
    if (!is_known) {
      throw ConfigError(
          fmt::format("op '{}' ({}): ONNX has no such operator in opset {}", op.name, op.type, kOnnxOpset));
    }
    for (const ValueId input : op.inputs) {
      if (input != kNoValue && made.contains(input)) {
        throw ConfigError(fmt::format("op '{}' ({}) reads '{}', which an operator unknown to ONNX makes",
                                      op.name, op.type, graph.value(input).name));
      }
    }
  }
}

}  // namespace

void write_onnx(const std::filesystem::path& path, const WeightsFiles& weights, const Graph& graph,
                const Metadata& metadata) {
  const std::string bytes = with_context(path.string(), [&] {
    check_left_out(graph);
    return Writer(graph, weights).model(metadata).SerializeAsString();
  });
  if (bytes.size() > kMaxOnnxBytes) {
    throw ConfigError(fmt::format(
        "{}: the model without its weights takes {} bytes, more than {}: its constants are too large",
        path.string(), bytes.size(), kMaxOnnxBytes));
  }
  write_file(path, bytes);
}

void write_onnx(const std::filesystem::path& path, const std::string& weights, const Graph& graph,
                const StateDict& state, const Metadata& metadata) {
  with_context(path.string(), [&] {
    check_state(graph, state);
    check_left_out(graph);
    if (weights.empty() || std::filesystem::path(weights).filename() != weights) {
      throw ConfigError(fmt::format("the weights' file '{}' must be a name in the same folder", weights));
    }
  });
  const std::filesystem::path weights_path = path.parent_path() / weights;
  write_safetensors(weights_path, state, metadata);
  write_onnx(path, {{weights, SafetensorsReader(weights_path).extents()}}, graph, metadata);
}

}  // namespace rookery
