#include "models/graph/gradient_builder.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/op_attributes.hpp"
#include "models/graph/op_definition.hpp"

namespace rookery {

GradientBuilder::GradientBuilder(TrainingGraph& training, std::set<ValueId> wanted)
    : training_(training),
      wanted_(std::move(wanted)),
      of_two_(training.graph.types(2)),
      of_three_(training.graph.types(3)) {}

void GradientBuilder::begin(const Op& forward) {
  while (!last_terms_.empty()) {
    const auto other = std::ranges::find_if(last_terms_, [&](const auto& term) {
      return std::ranges::find(forward.outputs, term.first) == forward.outputs.end();
    });
    if (other == last_terms_.end()) return;
    gradient_of(other->first);
  }
}

ValueId GradientBuilder::gradient_of(ValueId value) {
  const auto found = gradients_.find(value);
  if (found == gradients_.end()) return kNoValue;
  if (const auto last = last_terms_.extract(value); !last.empty()) {
    const auto& [phase, forward, gradient] = last.mapped();
    found->second = add_sum(phase, forward, value, found->second, gradient);
  }
  return found->second;
}

std::vector<ValueId> GradientBuilder::relu_gradient_inputs(ValueId output) {
  const auto last = last_terms_.extract(output);
  const ValueId gradient = gradient_of(output);
  if (gradient == kNoValue) return {};
  if (last.empty()) return {gradient, output};
  return {gradient, output, last.mapped().gradient};
}

Phase GradientBuilder::phase_for(ValueId target) const {
  const bool is_parameter = training_.graph.value(target).kind == ValueKind::kParameter;
  return is_parameter ? Phase::kBackwardWeights : Phase::kBackwardInputs;
}

Phase GradientBuilder::phase_for(const std::vector<ValueId>& targets) const {
  const auto may_wait = [&](ValueId target) {
    return !wants(target) || phase_for(target) == Phase::kBackwardWeights;
  };
  return std::ranges::all_of(targets, may_wait) ? Phase::kBackwardWeights : Phase::kBackwardInputs;
}

bool GradientBuilder::same_type(ValueId a, ValueId b) const {
  return of_two_[a] == of_two_[b] && of_three_[a] == of_three_[b];
}

ValueId GradientBuilder::gradient_before_activation(const Op& forward) {
  const ValueId output = forward.outputs.at(0);
  if (!has_activation(forward)) return gradient_of(output);
  std::vector<ValueId> inputs = relu_gradient_inputs(output);
  if (inputs.empty()) return kNoValue;
  Graph& graph = training_.graph;
  const std::string activation = forward.text(kActivationOp, "");
  const OpId id = graph.add_op({.name = activation + ".ReluGrad",
                                .type = "ReluGrad",
                                .inputs = std::move(inputs),
                                .outputs = {},
                                .attributes = {{"forward", activation}}},
                               {});
  training_.phases.push_back(Phase::kBackwardInputs);
  return graph.add_output_like(id, activation + ".input_gradient", output);
}

void GradientBuilder::seed(ValueId value, ValueId gradient) {
  gradients_[value] = gradient;
}

void GradientBuilder::add(Phase phase, const Op& forward, const std::string& type,
                          std::vector<ValueId> inputs, const std::vector<ValueId>& targets) {
  if (wants_any(targets)) add_op(phase, forward, type, std::move(inputs), {}, targets, false);
}

void GradientBuilder::add_whole(Phase phase, const Op& forward, const std::string& type,
                                std::vector<ValueId> inputs, const std::vector<ValueId>& targets) {
  if (wants_any(targets)) add_op(phase, forward, type, std::move(inputs), {}, targets, true);
}

std::vector<ValueId> GradientBuilder::add_making(Phase phase, const Op& forward, const std::string& type,
                                                 std::vector<ValueId> inputs,
                                                 const std::vector<ValueId>& made,
                                                 const std::vector<ValueId>& targets) {
  return add_op(phase, forward, type, std::move(inputs), made, targets, false);
}

bool GradientBuilder::wants_any(const std::vector<ValueId>& targets) const {
  return std::ranges::any_of(targets, [&](ValueId target) { return wants(target); });
}

std::vector<ValueId> GradientBuilder::add_op(Phase phase, const Op& forward, const std::string& type,
                                             std::vector<ValueId> inputs, const std::vector<ValueId>& made,
                                             const std::vector<ValueId>& targets, bool whole) {
  Graph& graph = training_.graph;
  Op op{.name = graph.unused_op_name(forward.name + "." + type),
        .type = type,
        .inputs = std::move(inputs),
        .outputs = {},
        .attributes = forward.attributes};
  op.attributes.erase(kActivation);
  op.attributes.erase(kActivationOp);
  op.attributes["forward"] = forward.name;
  const OpId id = graph.add_op(std::move(op), {});
  training_.phases.push_back(phase);
  const auto add_gradient = [&](ValueId target) {
    const std::string name = graph.unused_value_name(graph.value(target).name + ".gradient");
    return graph.add_output_like(id, name, target);
  };
  std::vector<ValueId> others;
  for (const ValueId like : made) others.push_back(add_gradient(like));
  for (const ValueId target : targets) {
    if (!wants(target) && !whole) {
      graph.op(id).outputs.push_back(kNoValue);
    } else {
      add_gradient(target);
    }
  }
  const std::vector<ValueId> outputs = graph.op(id).outputs;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (wants(targets[i])) accumulate(phase, forward, targets[i], outputs[made.size() + i]);
  }
  return others;
}

ValueId GradientBuilder::of_its_own(ValueId parameter, ValueId gradient) {
  const Graph& graph = training_.graph;
  const OpId maker = graph.value(gradient).producer;
  if (maker == kNoOp || !is_view(graph.op(maker))) return gradient;
  const std::string forward = graph.op(maker).text("forward", graph.op(maker).name);
  return append(Phase::kBackwardWeights, forward, forward + ".Copy", "Copy", {gradient}, parameter);
}

void GradientBuilder::accumulate(Phase phase, const Op& forward, ValueId value, ValueId contribution) {
  if (training_.graph.value(value).kind == ValueKind::kParameter) {
    accumulate_parameter(forward, value, contribution);
    return;
  }
  if (gradient_of(value) == kNoValue)
    gradients_.emplace(value, contribution);
  else
    last_terms_.emplace(value, Term{phase, forward.name, contribution});
}

void GradientBuilder::accumulate_parameter(const Op& forward, ValueId parameter, ValueId contribution) {
  std::vector<ValueId>& uses = training_.parameter_gradients[parameter];
  std::string& newest = newest_users_[parameter];
  if (!uses.empty() && newest == forward.name) {
    uses.back() = add_sum(Phase::kBackwardWeights, forward.name, parameter, uses.back(), contribution);
  } else {
    uses.push_back(contribution);
    newest = forward.name;
  }
}

ValueId GradientBuilder::add_sum(Phase phase, const std::string& forward, ValueId value, ValueId sum,
                                 ValueId contribution) {
  return append(phase, forward, training_.graph.value(value).name + ".gradient.Add", "Add",
                {sum, contribution}, value);
}

ValueId GradientBuilder::append(Phase phase, const std::string& forward, const std::string& name,
                                const std::string& type, std::vector<ValueId> inputs, ValueId target) {
  Graph& graph = training_.graph;
  const OpId id = graph.add_op({.name = graph.unused_op_name(name),
                                .type = type,
                                .inputs = std::move(inputs),
                                .outputs = {},
                                .attributes = {{"forward", forward}}},
                               {});
  training_.phases.push_back(phase);
  return graph.add_output_like(id, graph.unused_value_name(graph.value(target).name + ".gradient"), target);
}

}  // namespace rookery
