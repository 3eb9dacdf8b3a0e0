// ONNX to Graph. Nothing in the file is trusted.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/op_definition.hpp"
#include "models/io/onnx/format/constants.hpp"
#include "models/io/onnx/format/external.hpp"
#include "models/io/onnx/format/format.hpp"
#include "models/io/onnx/format/parse.hpp"
#include "models/io/onnx/functions/functions.hpp"
#include "models/io/onnx/onnx.hpp"

namespace rookery {
namespace {

// What the nodes make of the initializers they read.
struct Uses {
  std::set<std::string> values;    // parameters and constants: the first lie outside of the file
  std::set<std::string> buffers;   // running statistics
  std::set<std::string> counters;  // num_batches_tracked that go with them
  struct Constant {
    AttributeKind kind;
    std::string what;  // "ratio of a Dropout"
  };
  std::map<std::string, Constant> attributes;  // what they are for the last node that reads them
};

Uses find_uses(const onnx::GraphProto& graph) {
  Uses uses;
  for (const onnx::NodeProto& node : graph.node()) {
    for (int i = 0; i < node.input_size(); ++i) {
      const std::string& input = node.input(i);
      const auto position = static_cast<std::size_t>(i);
      if (const ConstantInput* constant = constant_input(node.op_type(), position)) {
        uses.attributes[input] = {constant->kind, fmt::format("{} of a {}", constant->key, node.op_type())};
      } else if (node.op_type() == "BatchNormalization" && position >= kBatchNormMean) {
        uses.buffers.insert(input);
        if (position == kBatchNormMean) uses.counters.insert(tracked_name(input));
      } else {
        uses.values.insert(input);
      }
    }
  }
  return uses;
}

class Reader {
 public:
  Reader(const onnx::GraphProto& in, const std::filesystem::path& folder)
      : in_(in), external_(folder), uses_(find_uses(in)) {}

  OnnxModel read() {
    if (in_.sparse_initializer_size() > 0) throw DataError("sparse initializers are not supported");
    for (const onnx::ValueInfoProto& input : in_.input()) add_input(input);
    for (const onnx::TensorProto& tensor : in_.initializer()) {
      with_context("initializer " + in_quotes(tensor.name()), [&] { add_initializer(tensor); });
    }
    for (const onnx::NodeProto& node : in_.node()) {
      with_context(node_name(node), [&] { add_node(node); });
    }
    for (const onnx::ValueInfoProto& output : in_.output()) {
      with_context("output " + in_quotes(output.name()), [&] { mark_output(output); });
    }
    check_types();
    return std::move(model_);
  }

 private:
  void add_input(const onnx::ValueInfoProto& input) {
    with_context("input " + in_quotes(input.name()), [&] {
      const onnx::TypeProto::Tensor& tensor = input.type().tensor_type();
      if (!input.type().has_tensor_type() || !tensor.has_shape())
        throw DataError("is no tensor with a shape");
      std::vector<std::int64_t> dims;
      for (const onnx::TensorShapeProto::Dimension& dim : tensor.shape().dim()) {
        if (dim.has_dim_value()) {
          dims.push_back(checked_dim(dim.dim_value()));
        } else if (dims.empty() && dim.dim_param() == kOnnxBatch) {
          dims.push_back(kBatch);
        } else {
          throw DataError(fmt::format("dimension {} is {}; only the first may be open, and is called '{}'",
                                      dims.size(), in_quotes(dim.dim_param()), kOnnxBatch));
        }
      }
      model_.graph.add_input(input.name(), {dtype_from_onnx(tensor.elem_type()), Shape(dims)});
    });
  }

  void add_initializer(const onnx::TensorProto& proto) {
    const std::string& name = proto.name();
    const auto attribute = uses_.attributes.find(name);
    const bool may_be_empty = attribute != uses_.attributes.end() && proto.dims_size() == 1;
    std::vector<std::int64_t> dims;
    for (const std::int64_t dim : proto.dims())
      dims.push_back(dim == 0 && may_be_empty ? 0 : checked_dim(dim));
    const TensorType type{dtype_from_onnx(proto.data_type()), Shape(dims)};
    const bool value = uses_.values.contains(name);
    const bool buffer = uses_.buffers.contains(name) || uses_.counters.contains(name);
    if (static_cast<int>(value) + static_cast<int>(buffer) +
            static_cast<int>(attribute != uses_.attributes.end()) !=
        1) {
      throw DataError(
          "must be used as a value, as a running statistic or as an attribute, and as one of them only");
    }
    if (attribute != uses_.attributes.end()) {
      const auto& [kind, what] = attribute->second;
      if (!fits(kind, type)) throw DataError(fmt::format("the {} is {}", what, type.to_string()));
      if (!attributes_.emplace(name, attribute_of(kind, tensor_from(proto, type, external_))).second)
        throw DataError("is there twice");
      return;
    }
    if (uses_.counters.contains(name) && type != TensorType{DType::kI64, {}}) {
      throw DataError(fmt::format("counts batches but is {}", type.to_string()));
    }
    if (value && proto.data_location() != onnx::TensorProto::EXTERNAL) {
      model_.graph.add_constant(name, std::make_shared<const Tensor>(tensor_from(proto, type, external_)));
      return;
    }
    if (proto.doc_string() == kOnnxFixed) {
      model_.graph.add_fixed(name, type);
    } else {
      value ? model_.graph.add_parameter(name, type) : model_.graph.add_buffer(name, type);
    }
    model_.state.emplace(name, tensor_from(proto, type, external_));
  }

  void add_node(const onnx::NodeProto& node) {
    if (std::optional<Tensor> constant = folded(node)) {
      if (node.output_size() != 1) throw DataError(fmt::format("has {} outputs, not 1", node.output_size()));
      in_quotes(node.output(0));
      model_.graph.add_constant(node.output(0), std::make_shared<const Tensor>(std::move(*constant)));
      return;
    }
    if (node.name().empty()) throw DataError("has no name");
    if (node.domain() == kOnnxDomain) {
      add_call(node);
      return;
    }
    const OpSignature* known = op_signature(node.op_type());
    if (known == nullptr || !node.domain().empty()) throw DataError("this operator is not supported");
    if (node.output_size() < 1 || std::cmp_greater(node.output_size(), known->most_outputs)) {
      throw DataError(
          fmt::format("has {} outputs, not {}", node.output_size(),
                      known->most_outputs == 1 ? "1" : fmt::format("1 to {}", known->most_outputs)));
    }
    const auto inputs = static_cast<std::size_t>(node.input_size());
    if (inputs < known->inputs.least || inputs > known->inputs.most) {
      throw DataError(
          fmt::format("has {} inputs, not {} to {}", inputs, known->inputs.least, known->inputs.most));
    }
    Op op{.name = node.name(), .type = node.op_type(), .inputs = {}, .outputs = {}};
    op.attributes = attributes_from(node, known->attributes);
    for (std::size_t i = 0; i < inputs; ++i) add_op_input(op, i, node.input(static_cast<int>(i)), *known);
    if (op.type == "BatchNormalization") attach_tracked(op);
    for (const std::string& output : node.output()) in_quotes(output);
    model_.graph.add_op(std::move(op), {node.output().begin(), node.output().end()});
  }

  // What a node makes that has no input but constants.
  std::optional<Tensor> folded(const onnx::NodeProto& node) {
    const std::string& type = node.op_type();
    if (!node.domain().empty()) return std::nullopt;
    if (type == "Constant") {
      std::optional<Tensor> value = value_of(node);
      if (!value || node.input_size() > 0)
        throw DataError("needs a tensor as attribute \"value\", and no input");
      return value;
    }
    if (type == "ConstantOfShape")
      return repeated_constant(constants_of<std::vector<std::int64_t>>(node, 1)[0], value_of(node));
    if (type == "Range") return range_constant(constants_of<std::int64_t>(node, 3));
    return std::nullopt;
  }

  std::optional<Tensor> value_of(const onnx::NodeProto& node) {
    if (node.attribute_size() == 0) return std::nullopt;
    const onnx::AttributeProto& attribute = node.attribute(0);
    if (node.attribute_size() > 1 || attribute.name() != "value" ||
        attribute.type() != onnx::AttributeProto::TENSOR)
      throw DataError("has other attributes than a tensor \"value\"");
    std::vector<std::int64_t> dims;
    for (const std::int64_t dim : attribute.t().dims()) dims.push_back(checked_dim(dim));
    if (attribute.t().data_location() == onnx::TensorProto::EXTERNAL)
      throw DataError("its value is not in the model itself");
    return tensor_from(attribute.t(), {dtype_from_onnx(attribute.t().data_type()), Shape(dims)}, external_);
  }

  // The constant inputs of a node, all of one kind.
  template <typename T>
  std::vector<T> constants_of(const onnx::NodeProto& node, int count) const {
    if (node.input_size() != count)
      throw DataError(fmt::format("has {} inputs, not {}", node.input_size(), count));
    std::vector<T> result;
    for (const std::string& input : node.input()) {
      const auto constant = attributes_.find(input);
      const T* value = constant == attributes_.end() ? nullptr : std::get_if<T>(&constant->second);
      if (value == nullptr)
        throw DataError(fmt::format("its input {} is no initializer of i64", in_quotes(input)));
      result.push_back(*value);
    }
    return result;
  }

  void add_call(const onnx::NodeProto& node) {
    const OnnxFunction* function = find_onnx_function(node.op_type());
    if (function == nullptr) throw DataError("this function is not supported");
    if (node.output_size() < 1 || std::cmp_greater(node.output_size(), function->outputs))
      throw DataError(fmt::format("has {} outputs, not 1 to {}", node.output_size(), function->outputs));
    Op op{.name = node.name(), .type = function->type, .inputs = {}, .outputs = {}};
    op.attributes = attributes_from(node, function->attributes);
    for (const auto& [key, kind] : function->attributes) {
      if (!op.attributes.contains(key)) throw DataError(fmt::format("has no attribute '{}'", key));
    }
    op.attributes.insert(function->implied.begin(), function->implied.end());
    const auto inputs = static_cast<std::size_t>(node.input_size());
    if (inputs != function->given.size())
      throw DataError(fmt::format("has {} inputs, not {}", inputs, function->given.size()));
    op.inputs.assign(function->inputs, kNoValue);
    for (std::size_t i = 0; i < inputs; ++i) {
      op.inputs[function->given[i]] = value_called(node.input(static_cast<int>(i)));
    }
    for (const std::string& output : node.output()) in_quotes(output);
    model_.graph.add_op(std::move(op), {node.output().begin(), node.output().end()});
  }

  void add_op_input(Op& op, std::size_t position, const std::string& name, const OpSignature& known) {
    if (const ConstantInput* input = constant_input(op.type, position)) {
      if (name.empty()) return;
      const auto constant = attributes_.find(name);
      if (constant == attributes_.end())
        throw DataError(fmt::format("its {} {} is no initializer", input->key, in_quotes(name)));
      if (kind_of(constant->second) != input->kind)
        throw DataError(fmt::format("its {} {} has the wrong type", input->key, in_quotes(name)));
      op.attributes[input->key] = constant->second;
    } else if (name.empty() && position >= known.inputs.least) {
      op.inputs.push_back(kNoValue);
    } else {
      op.inputs.push_back(value_called(name));
    }
  }

  ValueId value_called(const std::string& name) const {
    if (const std::optional<ValueId> id = model_.graph.find(name)) return *id;
    fail_dangling(in_, name);
  }

  void attach_tracked(Op& op) const {
    const Graph& graph = model_.graph;
    for (const std::size_t position : {kBatchNormMean, kBatchNormVariance}) {
      const Value& value = graph.value(op.inputs[position]);
      if (value.kind != ValueKind::kBuffer)
        throw DataError(fmt::format("{} is no initializer", in_quotes(value.name)));
    }
    const std::string& mean = graph.value(op.inputs[kBatchNormMean]).name;
    if (const auto tracked = graph.find(tracked_name(mean))) op.inputs.push_back(*tracked);
  }

  void mark_output(const onnx::ValueInfoProto& output) {
    const ValueId id = value_called(output.name());
    if (model_.graph.value(id).producer == kNoOp) throw DataError("is made by no node");
    if (std::ranges::find(model_.graph.outputs(), id) != model_.graph.outputs().end()) {
      throw DataError("is there twice");
    }
    model_.graph.mark_output(id);
  }

  // Shapes fit, inputs are of types that operators take, and no value is of absurd size.
  void check_types() const {
    const Graph& graph = model_.graph;
    const auto check_size = [&](const Value& value, const TensorType& type) {
      if (type.shape.elements() > kMaxOnnxElements) {
        throw DataError(
            fmt::format("{} would have the shape {}", in_quotes(value.name), type.shape.to_string()));
      }
    };
    for (const ValueId id : graph.inputs()) {
      const TensorType& type = graph.value(id).type;
      check_size(graph.value(id), {type.dtype, type.shape.with_batch(1)});
    }
    const std::vector<TensorType> types = graph.types(1);
    for (std::size_t id = 0; id < types.size(); ++id) check_size(graph.values()[id], types[id]);
    for (const Op& op : graph.ops()) {
      const OpSignature* known = op_signature(op.type);
      // The types that a function takes are checked with its shapes.
      if (known == nullptr || known->any_type) continue;
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const ValueId input = op.inputs[i];
        if (input == kNoValue || (op.type == "BatchNormalization" && i == kBatchNormTracked)) continue;
        const TensorType& type = types[input];
        if (type.dtype == DType::kF32) continue;
        throw DataError(fmt::format("node {} ({}): its input {} is {}, not f32", in_quotes(op.name), op.type,
                                    in_quotes(graph.value(input).name), type.to_string()));
      }
    }
  }

  const onnx::GraphProto& in_;  // outlives the reader: both live in read_onnx()
  ExternalData external_;
  Uses uses_;
  std::map<std::string, Attribute> attributes_;
  OnnxModel model_;
};

// The functions must be ours, word for word: their calls are read as our ops.
void check_functions(const onnx::ModelProto& model) {
  std::set<std::string> called;
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (node.domain() == kOnnxDomain) called.insert(node.op_type());
  }
  for (const onnx::FunctionProto& function : model.functions()) {
    const OnnxFunction* known = find_onnx_function(function.name());
    if (known == nullptr || function.SerializeAsString() != function_body(*known).SerializeAsString()) {
      throw DataError(
          fmt::format("its function {} is none that this program knows", in_quotes(function.name())));
    }
    if (called.erase(function.name()) == 0)
      throw DataError(
          fmt::format("its function {} is there twice or not called", in_quotes(function.name())));
  }
  for (const std::string& name : called) {
    if (find_onnx_function(name) != nullptr)
      throw DataError(fmt::format("has no function {}", in_quotes(name)));
  }
}

void check_version(const onnx::ModelProto& model) {
  std::map<std::string, std::int64_t> opsets;
  for (const auto& opset : model.opset_import()) opsets.emplace(opset.domain(), opset.version());
  std::map<std::string, std::int64_t> expected{{"", kOnnxOpset}};
  if (model.functions_size() > 0) expected.emplace(kOnnxDomain, kOnnxDomainVersion);
  if (model.ir_version() != kOnnxIrVersion || model.opset_import_size() != std::ssize(expected) ||
      opsets != expected) {
    throw DataError(
        fmt::format("is of another version than IR {} with opset {} and functions of '{}', or an incomplete "
                    "copy",
                    kOnnxIrVersion, kOnnxOpset, kOnnxDomain));
  }
  if (model.training_info_size() > 0) throw DataError("training graphs are not supported");
  check_functions(model);
  const auto found = std::ranges::find(model.metadata_props(), kOnnxVersionKey,
                                       [](const auto& property) { return property.key(); });
  if (found == model.metadata_props().end()) {
    throw DataError(
        fmt::format("has no '{}': not written by Rookery, or an incomplete copy", kOnnxVersionKey));
  }
  if (found->value() != "1" && found->value() != std::to_string(kOnnxNewestVersion)) {
    throw DataError(fmt::format("format version {}, this program knows up to {}: use a newer Rookery",
                                in_quotes(found->value()), kOnnxNewestVersion));
  }
}

Metadata model_metadata(const onnx::ModelProto& model) {
  Metadata metadata;
  for (const auto& property : model.metadata_props()) {
    if (property.key() != kOnnxVersionKey) metadata.emplace(property.key(), property.value());
  }
  return metadata;
}

}  // namespace

OnnxHeader read_onnx_header(const std::filesystem::path& path) {
  const std::string bytes = read_file(path, kMaxOnnxBytes);
  return with_context(path.string(), [&] {
    const onnx::ModelProto model = parse_onnx(bytes);
    check_version(model);
    OnnxHeader header{.metadata = model_metadata(model), .weights = {}};
    for (const onnx::TensorProto& tensor : model.graph().initializer()) {
      for (const onnx::StringStringEntryProto& entry : tensor.external_data()) {
        if (entry.key() == "location") header.weights.insert(entry.value());
      }
    }
    return header;
  });
}

OnnxModel read_onnx(const std::filesystem::path& path) {
  const std::string bytes = read_file(path, kMaxOnnxBytes);
  return with_context(path.string(), [&] {
    try {
      const onnx::ModelProto model = parse_onnx(bytes);
      check_version(model);
      OnnxModel read = Reader(model.graph(), path.parent_path()).read();
      read.metadata = model_metadata(model);
      return read;
    } catch (const ConfigError& error) {  // what Graph finds wrong
      throw DataError(error.what());
    }
  });
}

}  // namespace rookery
