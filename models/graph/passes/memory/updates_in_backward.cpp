#include "models/graph/passes/memory/updates_in_backward.hpp"

#include <cstddef>
#include <map>

#include "models/graph/passes/memory/memory_plan.hpp"
#include "models/tensor/tensor.hpp"

namespace rookery {
namespace {

// Smaller ones are cheaper to update all at once.
constexpr std::size_t kLeastBytes = std::size_t{16} << 10;

// In working memory nothing keeps what pads a tensor at 0.
bool pays(const TensorType& type) {
  return type.bytes() >= kLeastBytes && type.bytes() == align_up(type.bytes());
}

}  // namespace

TrainingGraph with_updates_in_backward(TrainingGraph training, const std::set<std::string>& left_out) {
  for (const auto& [parameter, uses] : training.parameter_gradients) {
    const Value& value = training.graph.value(parameter);
    if (uses.size() == 1 && pays(value.type) && !left_out.contains(value.name))
      training.updated_in_backward.insert(parameter);
  }
  return training;
}

std::vector<UpdateInBackward> updates_in_backward(const TrainingGraph& training) {
  const Graph& graph = training.graph;
  std::vector<UpdateInBackward> updates;
  std::map<ValueId, std::size_t> update_of;  // parameters and their gradients
  for (const ValueId parameter : training.updated_in_backward) {
    const ValueId gradient = training.parameter_gradients.at(parameter).front();
    for (const ValueId value : {parameter, gradient}) update_of[value] = updates.size();
    updates.push_back({.parameter = parameter, .gradient = gradient});
  }
  const auto note_uses = [&](OpId id) {
    for (const auto& values : {graph.op(id).inputs, graph.op(id).outputs}) {
      for (const ValueId value : values) {
        if (value == kNoValue) continue;
        const auto update = update_of.find(memory_owner(graph, value));
        if (update != update_of.end()) updates[update->second].after = id;
      }
    }
  };
  for (const Phase phase : {Phase::kForward, Phase::kBackwardInputs, Phase::kBackwardWeights}) {
    for (OpId id = 0; id < static_cast<OpId>(graph.ops().size()); ++id)
      if (training.phases[static_cast<std::size_t>(id)] == phase) note_uses(id);
  }
  return updates;
}

}  // namespace rookery
