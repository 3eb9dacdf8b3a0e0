// Layers that files describe by what they are in training or in inference, or with more inputs than they
// need.

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/io/onnx/format/format.hpp"
#include "models/io/onnx/import/operators/by_signature.hpp"
#include "models/io/onnx/import/operators/families.hpp"

namespace rookery {
namespace {

// What trains is told by the program, not by the file; the mask is the graph's own affair.
Operands import_dropout(GraphImporter& graph, ImportedNode& node) {
  node.inputs.resize(std::min<std::size_t>(node.inputs.size(), 2));
  return import_by_signature(graph, node);
}

// In the form of inference, whatever the file's: it trains again, unless the module's is in evaluation.
Operands import_batch_norm(GraphImporter& graph, ImportedNode& node) {
  if (node.inputs.size() != 5) throw DataError(fmt::format("has {} inputs, not 5", node.inputs.size()));
  const bool fixed = graph.keeps_modes() && integer(node, "training_mode", 0) == 0;
  drop_idle_attributes(node);
  node.outputs.resize(1);
  node.inputs[kBatchNormMean] = graph.buffer(node.inputs[kBatchNormMean], fixed);
  node.inputs[kBatchNormVariance] = graph.buffer(node.inputs[kBatchNormVariance], fixed);
  const Operand counter = fixed ? Operand() : graph.counter_of(node.inputs[kBatchNormMean]);
  Attributes attributes{{"epsilon", 1e-5F}, {"momentum", 0.9F}};
  for (auto& [key, value] : node.attributes) attributes[key] = value;
  if (attributes.size() > 2) throw DataError("has attributes that are not supported");
  if (!std::holds_alternative<std::monostate>(counter)) node.inputs.push_back(counter);
  return {graph.emit(node.name, node.type, node.inputs, attributes, node.outputs[0])};
}

// From set 21 scale and bias are those of channels, as in PyTorch; before they are those of groups.
Operands import_group_norm(GraphImporter& graph, ImportedNode& node) {
  drop_idle_attributes(node);
  const std::int64_t groups = integer(node, "num_groups", 0);
  const Shape x = graph.type(input(node, 0), 0).shape;
  if (node.inputs.size() != 3 || x.rank() < 2 || groups != x[1])
    throw DataError("its scale and bias are those of groups, not of channels: export with opset_version=17");
  Attributes attributes{{"num_groups", groups}, {"epsilon", 1e-5F}};
  for (auto& [key, value] : node.attributes) attributes[key] = value;
  return {graph.emit(node.name, node.type, node.inputs, attributes, node.outputs[0])};
}

// torch.export gives every convolution a bias, of zeros where the module has none.
Operands import_convolution(GraphImporter& graph, ImportedNode& node) {
  const auto* bias = std::get_if<Known>(&input(node, 2));
  const bool is_zero = bias != nullptr && bias->is_constant() && bias->at(0).type().dtype == DType::kF32 &&
                       std::ranges::all_of(bias->at(0).as<float>(), [](float each) { return each == 0; });
  if (is_zero) node.inputs.resize(2);
  return import_by_signature(graph, node);
}

Operands import_gelu(GraphImporter& graph, ImportedNode& node) {
  Attributes attributes{{"approximate", std::string("none")}};
  for (auto& [key, value] : node.attributes) attributes[key] = value;
  if (attributes.size() != 1 || node.inputs.size() != 1)
    throw DataError("has inputs or attributes that are not supported");
  return {graph.emit(node.name, "Gelu", node.inputs, attributes, node.outputs[0])};
}

}  // namespace

ImportTable layer_imports() {
  return {
      {"BatchNormalization", import_batch_norm},
      {"Conv", import_convolution},
      {"ConvTranspose", import_convolution},
      {"Dropout", import_dropout},
      {"Gelu", import_gelu},
      {"GroupNormalization", import_group_norm},
  };
}

}  // namespace rookery
