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

template <std::size_t kCount>
bool is_one_of(const std::array<std::string_view, kCount>& types, const Op& op) {
  return std::ranges::find(types, op.type) != types.end();
}

bool runs_along_batch(const Op& op, const std::vector<TensorType>& types) {
  const auto has_batch_from = [&](std::size_t axis, std::size_t input = 0) {
    if (input >= op.inputs.size() || op.inputs[input] == kNoValue) return false;
    return std::ranges::count(types[op.inputs[input]].shape.dims().subspan(axis), kBatch) > 0;
  };
  const Shape& shape = types[op.inputs[0]].shape;
  constexpr std::array<std::string_view, 3> kAlongSteps = {"GRU", "LSTM", "RNN"};
  if (is_one_of(kAlongSteps, op)) return shape[0] == kBatch;
  constexpr std::array<std::string_view, 3> kAlongAxis = {"CumSum", "LogSoftmax", "Softmax"};
  if (is_one_of(kAlongAxis, op)) return shape[axis_of(op.integer("axis", -1), shape.rank())] == kBatch;
  constexpr std::array<std::string_view, 6> kAlongPlaces = {
      "AveragePool", "Conv", "ConvTranspose", "InstanceNormalization", "MaxPool", "Resize"};
  if (is_one_of(kAlongPlaces, op)) return has_batch_from(2);
  if (op.type == "GroupNormalization") return has_batch_from(1);
  return op.type == "Attention" && (has_batch_from(1) || has_batch_from(1, 1));  // queries, keys
}

bool mixes(const Op& op, const std::vector<TensorType>& types) {
  const auto follow_batch = [&](ValueId id) {
    return id != kNoValue && batch_dimensions(types[id].shape) > 0;
  };
  if (std::ranges::none_of(op.inputs, follow_batch)) return false;
  return runs_along_batch(op, types) || std::ranges::any_of(op.outputs, [&](ValueId id) {
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
