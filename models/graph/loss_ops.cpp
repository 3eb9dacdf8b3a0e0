// Losses: operators of our own, see ops.hpp.
#include <fmt/format.h>

#include <algorithm>

#include "models/base/error.hpp"
#include "models/graph/differentiate.hpp"
#include "models/graph/loss.hpp"
#include "models/graph/ops.hpp"

namespace rookery {
namespace {

std::vector<TensorType> infer_loss(const Op&, std::span<const TensorType> inputs) {
  if (inputs.size() < 2 || inputs[0].shape.rank() != 2)
    throw ConfigError("needs predictions f32[batch, classes]");
  if (inputs[1] != TensorType{DType::kI64, {inputs[0].shape[0]}}) {
    throw ConfigError(
        fmt::format("labels of {} for predictions of {}", inputs[1].to_string(), inputs[0].to_string()));
  }
  return {{DType::kF32, Shape()}};
}

double loss_flops(const Op&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  return 3.0 * static_cast<double>(inputs[0].shape.elements());
}

void differentiate_loss(GradientBuilder& builder, const Op& op) {
  builder.add(Phase::kBackwardInputs, op, op.type + "Grad", {op.inputs[0], op.inputs[1]}, {op.inputs[0]});
}

const std::vector<std::pair<std::string, std::string>>& losses() {
  static const std::vector<std::pair<std::string, std::string>> table{{"mse", "MseLoss"},
                                                                      {"cross_entropy", "CrossEntropyLoss"}};
  return table;
}

}  // namespace

std::vector<OpDefinition> loss_ops() {
  std::vector<OpDefinition> definitions;
  for (const auto& [name, type] : losses()) {
    definitions.push_back({.type = type,
                           .infer = infer_loss,
                           .differentiate = differentiate_loss,
                           .flops = loss_flops,
                           .is_loss = true});
    definitions.push_back({.type = type + "Grad", .flops = loss_flops});
  }
  return definitions;
}

const std::vector<std::string>& loss_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, type] : losses()) all.push_back(name);
    return all;
  }();
  return names;
}

void add_loss(Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(losses(), name, [](const auto& entry) { return entry.first; });
  if (found == losses().end()) {
    throw ConfigError(
        fmt::format("loss '{}' is unknown; there are: {}", name, fmt::join(loss_names(), ", ")));
  }
  if (graph.outputs().size() != 1) {
    throw ConfigError(
        fmt::format("a loss needs a model with one output, this one has {}", graph.outputs().size()));
  }
  const ValueId labels = graph.add_input(kLabels, {DType::kI64, {kBatch}});
  const ValueId sample_ids = graph.add_input(kSampleIds, {DType::kI64, {kBatch}});
  const OpId op = graph.add_op(
      {.name = "loss", .type = found->second, .inputs = {graph.outputs()[0], labels, sample_ids}}, {kLoss});
  graph.mark_output(graph.op(op).outputs[0]);
}

}  // namespace rookery
