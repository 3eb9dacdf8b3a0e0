#include "models/io/onnx/import/operators/operators.hpp"

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/op_definition.hpp"
#include "models/io/onnx/format/constants.hpp"
#include "models/io/onnx/functions/functions.hpp"
#include "models/io/onnx/import/operators/by_signature.hpp"
#include "models/io/onnx/import/operators/families.hpp"

namespace rookery {
namespace {

const ImportTable& rules() {
  static const ImportTable table = [] {
    ImportTable all;
    for (const auto family :
         {einsum_imports, function_imports, layer_imports, recurrent_imports, shape_imports})
      all.merge(family());
    return all;
  }();
  return table;
}

// Operators of ours: see rookery_export.py.
Operands import_detach(GraphImporter& graph, ImportedNode& node) {
  if (node.inputs.size() != 1) throw DataError("needs one input");
  return {graph.emit(node.name, "Detach", node.inputs, {}, node.outputs[0])};
}

Operands import_embedding(GraphImporter& graph, ImportedNode& node) {
  if (node.inputs.size() != 2) throw DataError("needs weights and indices");
  const Shape weight = graph.type(node.inputs[0], 0).shape;
  const std::int64_t padding = integer(node, "padding_idx", -1);
  if (weight.rank() != 2 || padding < 0 || padding >= weight[0])
    throw DataError(fmt::format("has the padding_idx {} for weights of {}", padding, weight.to_string()));
  return {graph.emit(node.name, "Gather", node.inputs, {{"axis", std::int64_t{0}}, {"padding_idx", padding}},
                     node.outputs[0])};
}

// What only constants go through: Floor, Mod, Range, …
std::optional<Operand> fold_own(GraphImporter& graph, const ImportedNode& node) {
  // Of several dimensions not all may be meant.
  if (node.type == "ReduceProd" && node.attributes.contains("axes")) return std::nullopt;
  const Folder::Integer attribute = [&](const std::string& key, std::int64_t otherwise) {
    return integer(node, key, otherwise);
  };
  AtProbes<std::shared_ptr<const Tensor>> made;
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    std::vector<const Tensor*> tensors;
    for (const Operand& operand : node.inputs) {
      const auto* known = std::get_if<Known>(&operand);
      if (known == nullptr && !std::holds_alternative<std::monostate>(operand)) return std::nullopt;
      tensors.push_back(known == nullptr ? nullptr : &known->at(probe));
    }
    std::optional<Tensor> tensor = graph.folder().run_own(node.type, tensors, attribute);
    if (!tensor) return std::nullopt;
    made[probe] = std::make_shared<const Tensor>(std::move(*tensor));
  }
  return Known(std::move(made));
}

}  // namespace

bool is_supported(const std::string& type) {
  return rules().contains(type) || op_signature(type) != nullptr || Folder::has_own(type) ||
         type == "Constant" || type == "ConstantOfShape";
}

Operand import_filled(const ImportedNode& node, const std::optional<Tensor>& element) {
  AtProbes<std::shared_ptr<const Tensor>> made;
  const AtProbes<std::vector<std::int64_t>> dims = integers_at_probes(node, 0, "shape");
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    made[probe] = std::make_shared<const Tensor>(
        repeated_constant(dims[probe], element ? std::optional(element->clone()) : std::nullopt));
  }
  return Known(std::move(made));
}

std::vector<Operand> import_own(GraphImporter& graph, ImportedNode node) {
  if (node.outputs.size() != 1) throw DataError("has not one output");
  if (node.type == "Detach") return import_detach(graph, node);
  if (node.type == "Embedding") return import_embedding(graph, node);
  throw DataError(fmt::format("no such operator of the domain {} is known", in_quotes(kOnnxDomain)));
}

std::vector<Operand> import_node(GraphImporter& graph, ImportedNode node) {
  if (node.outputs.empty()) throw DataError("has no output");
  if (std::optional<Operand> folded = fold_own(graph, node)) return {*folded};
  const auto found = rules().find(node.type);
  return found == rules().end() ? import_by_signature(graph, node) : found->second(graph, node);
}

}  // namespace rookery
