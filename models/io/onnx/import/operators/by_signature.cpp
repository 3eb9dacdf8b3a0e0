#include "models/io/onnx/import/operators/by_signature.hpp"

#include <algorithm>
#include <map>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/op_definition.hpp"
#include "models/io/onnx/format/parse.hpp"

namespace rookery {
namespace {

// The attributes of the op, at every probe, from the node's own and its constant inputs.
AtProbes<Attributes> attributes_of(const ImportedNode& node, const OpSignature& known) {
  AtProbes<Attributes> all;
  for (const auto& [key, value] : node.attributes) {
    const auto kind = known.attributes.find(key);
    if (kind == known.attributes.end())
      throw DataError(fmt::format("attribute \"{}\" is not supported", key));
    const bool is_type = kind->second == AttributeKind::kType;
    if (kind_of(value) != (is_type ? AttributeKind::kInt : kind->second))
      throw DataError(fmt::format("attribute \"{}\" has the wrong type", key));
    for (Attributes& at : all)
      at[key] =
          is_type ? Attribute(std::string(name_of(checked_dtype(std::get<std::int64_t>(value))))) : value;
  }
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ConstantInput* constant = known.constant_input(i);
    if (constant == nullptr || !is_there(node, i)) continue;
    const Known& value = known_input(node, i, constant->key);
    for (std::size_t probe = 0; probe < kProbes; ++probe)
      all[probe][constant->key] = attribute_from(constant->kind, value.at(probe), constant->key);
  }
  return all;
}

}  // namespace

void drop_idle_attributes(ImportedNode& node) {
  static const std::map<std::string, std::map<std::string, Attribute>> idle{
      {"AveragePool", {{"dilations", {}}}},
      {"BatchNormalization", {{"training_mode", {}}}},
      {"Cast", {{"saturate", {}}}},
      {"Dropout", {{"seed", {}}}},
      {"LayerNormalization", {{"stash_type", std::int64_t{1}}}},
      {"GroupNormalization", {{"stash_type", std::int64_t{1}}}},
      {"MaxPool", {{"storage_order", std::int64_t{0}}}},
      {"Resize",
       {{"antialias", std::int64_t{0}},
        {"exclude_outside", std::int64_t{0}},
        {"extrapolation_value", 0.0F},
        {"keep_aspect_ratio_policy", std::string("stretch")},
        {"cubic_coeff_a", -0.75F}}},
  };
  const auto found = idle.find(node.type);
  if (found == idle.end()) return;
  for (const auto& [key, value] : found->second) {
    const auto given = node.attributes.find(key);
    if (given == node.attributes.end()) continue;
    const bool anything = value == Attribute();
    const auto* list = std::get_if<std::vector<std::int64_t>>(&given->second);
    if (list != nullptr && std::ranges::any_of(*list, [](std::int64_t each) { return each != 1; })) continue;
    if (anything || given->second == value) node.attributes.erase(given);
  }
}

Operands import_by_signature(GraphImporter& graph, ImportedNode& node) {
  const OpSignature* known = op_signature(node.type);
  if (known == nullptr) throw DataError("this operator is not supported");
  drop_idle_attributes(node);
  while (!node.inputs.empty() && !is_there(node, node.inputs.size() - 1)) node.inputs.pop_back();
  // Those that became attributes may be missing.
  std::size_t least = known->inputs.least;
  while (least > 1 && known->constant_input(least - 1) != nullptr) --least;
  if (node.inputs.size() < least || node.inputs.size() > known->inputs.most) {
    throw DataError(
        fmt::format("has {} inputs, not {} to {}", node.inputs.size(), least, known->inputs.most));
  }
  const AtProbes<Attributes> attributes = attributes_of(node, *known);
  Operands operands;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (known->constant_input(i) == nullptr) operands.push_back(node.inputs[i]);
  }
  if (node.outputs.size() > known->most_outputs) node.outputs.resize(known->most_outputs);
  return graph.emit(node.name, node.type, operands, attributes, node.outputs);
}

}  // namespace rookery
