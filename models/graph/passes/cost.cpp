#include "models/graph/passes/cost.hpp"

#include <set>

#include "models/graph/op_definition.hpp"
#include "models/graph/passes/differentiate.hpp"

namespace rookery {
namespace {

// What an op reads or writes.
std::vector<TensorType> types_of(const std::vector<ValueId>& ids, const std::vector<TensorType>& types) {
  std::vector<TensorType> result;
  for (const ValueId id : ids) result.push_back(id == kNoValue ? TensorType{} : types[id]);
  return result;
}

double bytes_of(const Op& op, const std::vector<TensorType>& types) {
  double bytes = 0;
  if (is_view(op)) return bytes;
  for (const auto* ids : {&op.inputs, &op.outputs}) {
    for (const ValueId id : *ids) {
      if (id != kNoValue) bytes += static_cast<double>(types[id].bytes());
    }
  }
  return bytes;
}

double flops_of(const Op& op, const std::vector<TensorType>& types) {
  if (is_view(op)) return 0;
  const std::vector<TensorType> inputs = types_of(op.inputs, types);
  const std::vector<TensorType> outputs = types_of(op.outputs, types);
  const OpDefinition& definition = op_definition(op.type);
  if (definition.flops) return definition.flops(op, inputs, outputs);
  return outputs.empty() ? 0 : static_cast<double>(outputs[0].shape.elements());
}

}  // namespace

std::vector<OpCost> op_costs(const Graph& graph, std::int64_t micro_batch) {
  std::vector<OpCost> costs(graph.ops().size());
  const std::vector<TensorType> types = graph.types(micro_batch);
  std::set<ValueId> counted;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const Op& op = graph.ops()[i];
    costs[i].forward_flops = flops_of(op, types);
    costs[i].forward_bytes = bytes_of(op, types);
    for (const ValueId input : op.inputs) {
      if (input == kNoValue || graph.value(input).kind != ValueKind::kParameter) continue;
      if (!counted.insert(input).second) continue;
      costs[i].parameters += types[input].shape.elements();
      costs[i].parameter_bytes += static_cast<std::int64_t>(types[input].bytes());
    }
  }
  // Gradient ops follow all forward ops and carry the name of theirs.
  const TrainingGraph training = differentiate(graph, {});
  const std::vector<TensorType> training_types = training.graph.types(micro_batch);
  std::map<std::string, std::size_t> position;
  for (std::size_t i = 0; i < costs.size(); ++i) position.emplace(graph.ops()[i].name, i);
  for (std::size_t i = costs.size(); i < training.graph.ops().size(); ++i) {
    const Op& op = training.graph.ops()[i];
    const std::string forward = op.text("forward", "");
    if (const auto found = position.find(forward); found != position.end()) {
      costs[found->second].backward_flops += flops_of(op, training_types);
      costs[found->second].backward_bytes += bytes_of(op, training_types);
    }
  }
  return costs;
}

}  // namespace rookery
