#include "models/runtime/compile/parameter_layout.hpp"

#include <algorithm>
#include <functional>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

// Counts the gradients that are added up to one parameter's total.
std::size_t count_terms(const Stage& stage, const TrainingGraph& training, const std::string& name) {
  const auto uses = training.parameter_gradients.find(training.graph.at(name));
  std::size_t terms = uses == training.parameter_gradients.end() ? 0 : uses->second.size();
  const auto shared = std::ranges::find(stage.shared, name, &SharedParameter::parameter);
  if (shared == stage.shared.end()) return terms;
  if (shared->gradient_to != kNoStage && terms == 0) {
    throw ConfigError(
        fmt::format("'{}' has no influence on the loss here, but its gradient is wanted on stage {}", name,
                    shared->gradient_to));
  }
  return terms + (shared->gradient_from == kNoStage ? 0 : 1);
}

}  // namespace

ParameterLayout::ParameterLayout(const Stage& stage, const TrainingGraph* training) {
  const auto name_and_bytes = [&](ValueId id) {
    const Value& value = stage.graph.value(id);
    return std::pair(value.name, align_up(value.type.bytes()));
  };
  const auto changes_in_backward = [&](ValueId id) {
    return training != nullptr &&
           training->updated_in_backward.contains(training->graph.at(stage.graph.value(id).name));
  };
  const auto add_owned = [&](ValueId id) {
    const auto [name, bytes] = name_and_bytes(id);
    const ParameterExtent extent{
        .offset = owned_bytes / sizeof(float),
        .count = static_cast<std::size_t>(stage.graph.value(id).type.shape.elements())};
    parameters.emplace(name, owned_bytes);
    if (changes_in_backward(id)) {
      in_backward.emplace(name, extent);
    } else {
      at_end.push_back(extent);
      if (training != nullptr) gradient_terms[name] = {owned_bytes};
    }
    owned_bytes += bytes;
  };
  std::vector<ValueId> ids = stage.owned_parameters();
  const auto later = std::stable_partition(ids.begin(), ids.end(), std::not_fn(changes_in_backward));
  std::for_each(ids.begin(), later, add_owned);
  at_end_bytes = owned_bytes;
  std::for_each(later, ids.end(), add_owned);
  parameter_bytes = owned_bytes;
  for (const ValueId id : stage.borrowed_parameters()) {
    const auto [name, bytes] = name_and_bytes(id);
    parameters.emplace(name, parameter_bytes);
    parameter_bytes += bytes;
  }
  if (training == nullptr) return;
  gradient_bytes = at_end_bytes;
  for (const ValueId id : stage.graph.parameters()) {
    const auto [name, bytes] = name_and_bytes(id);
    if (in_backward.contains(name)) continue;
    std::vector<std::size_t>& terms = gradient_terms[name];
    const std::size_t count = count_terms(stage, *training, name);
    while (terms.size() < count) {
      terms.push_back(gradient_bytes);
      gradient_bytes += bytes;
    }
  }
}

}  // namespace rookery
