#include "models/graph/passes/differentiate.hpp"

#include <algorithm>
#include <iterator>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/op_definition.hpp"

namespace rookery {
namespace {

// Every value of real numbers that a parameter or a wanted input flows into.
std::set<ValueId> reached_from(const Graph& graph, std::set<ValueId> sources) {
  const std::vector<TensorType> types = graph.types(2);
  for (const Op& op : graph.ops()) {
    if (!op_definition(op.type).differentiate) continue;
    if (std::ranges::any_of(op.inputs, [&](ValueId input) { return sources.contains(input); })) {
      std::ranges::copy_if(op.outputs, std::inserter(sources, sources.end()), [&](ValueId output) {
        return output != kNoValue && is_floating(types[output].dtype);
      });
    }
  }
  return sources;
}

// Gradients of parameters are made last: neither what is made before them nor another stage reads one.
void check_phases(const TrainingGraph& training) {
  const Graph& graph = training.graph;
  const auto is_last = [&](ValueId value) {
    const OpId maker = value == kNoValue ? kNoOp : graph.value(value).producer;
    return maker != kNoOp && training.phases[maker] == Phase::kBackwardWeights;
  };
  for (std::size_t id = 0; id < graph.ops().size(); ++id) {
    const Op& op = graph.ops()[id];
    ROOKERY_CHECK(training.phases[id] == Phase::kBackwardWeights || std::ranges::none_of(op.inputs, is_last),
                  "{} reads a gradient that is made later", op.name);
  }
  for (const auto& [value, gradient] : training.sent_gradients)
    ROOKERY_CHECK(!is_last(gradient), "the gradient of {} is sent before it is made",
                  graph.value(value).name);
}

}  // namespace

TrainingGraph differentiate(const Graph& forward, const GradientRequest& request) {
  TrainingGraph training{.graph = forward, .phases = {}};
  Graph& graph = training.graph;
  const auto forward_ops = static_cast<OpId>(graph.ops().size());
  for (OpId id = 0; id < forward_ops; ++id) {
    training.phases.push_back(Phase::kForward);
    if (const auto& to_training = op_definition(graph.op(id).type).to_training) to_training(graph, id);
  }
  std::set<ValueId> sources(graph.parameters().begin(), graph.parameters().end());
  sources.insert(request.inputs.begin(), request.inputs.end());
  GradientBuilder builder(training, reached_from(forward, std::move(sources)));
  for (const ValueId value : request.received) {
    const ValueId gradient = graph.add_input_like(graph.value(value).name + ".received_gradient", value);
    training.received_gradients.emplace(value, gradient);
    builder.seed(value, gradient);
  }
  for (OpId id = forward_ops - 1; id >= 0; --id) {
    const Op op = graph.op(id);  // a copy: the rule adds ops
    builder.begin(op);
    if (const auto& differentiate_op = op_definition(op.type).differentiate) differentiate_op(builder, op);
  }
  for (auto& [parameter, uses] : training.parameter_gradients) {
    for (ValueId& gradient : uses) gradient = builder.of_its_own(parameter, gradient);
  }
  for (const ValueId input : request.inputs) {
    const ValueId gradient = builder.gradient_of(input);
    if (gradient == kNoValue) {
      throw ConfigError(fmt::format("'{}' has no influence on the loss, but its gradient is wanted",
                                    graph.value(input).name));
    }
    training.sent_gradients.emplace(input, gradient);
  }
  check_phases(training);
  return training;
}

TrainingGraph in_one_backward_phase(TrainingGraph training) {
  std::ranges::replace(training.phases, Phase::kBackwardWeights, Phase::kBackwardInputs);
  return training;
}

}  // namespace rookery
