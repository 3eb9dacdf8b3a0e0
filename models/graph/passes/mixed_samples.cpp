#include "models/graph/passes/mixed_samples.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "models/graph/op_definition.hpp"
#include "models/graph/ops/element_ranges.hpp"

namespace rookery {
namespace {

std::ptrdiff_t batch_dimensions(const Shape& shape) {
  return std::ranges::count(shape.dims(), kBatch);
}

bool runs_along_batch(const Op& op, const Shape& shape) {
  constexpr std::array<std::string_view, 3> kAlongSteps = {"GRU", "LSTM", "RNN"};
  if (std::ranges::find(kAlongSteps, op.type) != kAlongSteps.end()) return shape[0] == kBatch;
  constexpr std::array<std::string_view, 3> kAlongAxis = {"CumSum", "LogSoftmax", "Softmax"};
  if (std::ranges::find(kAlongAxis, op.type) == kAlongAxis.end()) return false;
  return shape[axis_of(op.integer("axis", -1), shape.rank())] == kBatch;
}

bool mixes(const Op& op, const std::vector<TensorType>& types) {
  const auto follow_batch = [&](ValueId id) {
    return id != kNoValue && batch_dimensions(types[id].shape) > 0;
  };
  if (std::ranges::none_of(op.inputs, follow_batch)) return false;
  return runs_along_batch(op, types[op.inputs[0]].shape) || std::ranges::any_of(op.outputs, [&](ValueId id) {
           return id != kNoValue && batch_dimensions(types[id].shape) != 1;
         });
}

}  // namespace

std::vector<OpId> mixing_ops(const Graph& graph) {
  const std::vector<TensorType> types = batch_types(graph);
  std::vector<OpId> found;
  for (OpId id = 0; id < std::ssize(graph.ops()); ++id) {
    const Op& op = graph.op(id);
    if (op.type != "BatchNormalization" && !op_definition(op.type).is_loss && mixes(op, types))
      found.push_back(id);
  }
  return found;
}

}  // namespace rookery
