// Linear layers that exporters write out in single ops.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "models/graph/graph_copier.hpp"
#include "models/graph/op_definition.hpp"
#include "models/graph/passes/recognize/recognize.hpp"

namespace rookery {
namespace {

using Integers = std::vector<std::int64_t>;

// A linear layer: x times a turned weight, and a bias.
struct Linear {
  ValueId x = kNoValue, weight = kNoValue, bias = kNoValue;
  ValueId result = kNoValue;
  Integers shape;  // of the result, with the batch as -1
  OpId product = kNoOp, sum = kNoOp;
};

class LinearFinder {
 public:
  explicit LinearFinder(const Graph& graph)
      : graph_(graph), types_(batch_types(graph)), readers_(graph.values().size()) {
    for (OpId id = 0; id < std::ssize(graph.ops()); ++id) {
      for (const ValueId input : graph.op(id).inputs) {
        if (input != kNoValue) readers_[input].push_back(id);
      }
    }
    for (const ValueId output : graph.outputs()) readers_[output].push_back(kNoOp);
  }

  std::optional<Linear> find(OpId id) const {
    const Op& product = graph_.op(id);
    if (product.type != "MatMul" || graph_.value(product.inputs[1]).producer == kNoOp) return std::nullopt;
    const Op& turn = graph_.op(graph_.value(product.inputs[1]).producer);
    Linear found{
        .x = product.inputs[0], .weight = turn.inputs[0], .result = product.outputs[0], .product = id};
    const Shape& shape = type(found.result).shape;
    const bool is_turned =
        turn.type == "Transpose" && graph_.value(found.weight).kind == ValueKind::kParameter &&
        type(found.weight).shape.rank() == 2 && permutation_of(turn, 2) == std::vector<int>{1, 0};
    if (!is_turned || shape.rank() < 2) return std::nullopt;
    found.shape.assign(shape.dims().begin(), shape.dims().end());
    if (shape.rank() > 2 && std::ranges::count(found.shape, kBatch) != 1) return std::nullopt;
    take_bias(found);
    return found;
  }

 private:
  const TensorType& type(ValueId id) const { return types_[id]; }

  void take_bias(Linear& found) const {
    const std::vector<OpId>& readers = readers_[found.result];
    if (readers.size() != 1 || readers[0] == kNoOp || graph_.op(readers[0]).type != "Add") return;
    const Op& sum = graph_.op(readers[0]);
    const ValueId bias = sum.inputs[sum.inputs[0] == found.result ? 1 : 0];
    const Shape of_bias{type(found.weight).shape[0]};
    if (graph_.value(bias).kind != ValueKind::kParameter || type(bias).shape != of_bias) return;
    found.bias = bias;
    found.sum = readers[0];
    found.result = sum.outputs[0];
  }

  const Graph& graph_;  // outlives the finder: both live in recognize_linear()
  std::vector<TensorType> types_;
  std::vector<std::vector<OpId>> readers_;  // by ValueId; kNoOp for outputs
};

// A Gemm of rows, as GraphBuilder::linear makes it.
void add_linear(GraphCopier& copier, const Graph& from, const Linear& linear) {
  Graph& graph = copier.graph();
  const std::string& name = from.op(linear.product).name;
  const std::string& result = from.value(linear.result).name;
  const bool has_parts = linear.shape.size() > 2;
  const auto add = [&](Op op, const std::string& output) {
    op.name = graph.unused_op_name(op.name);
    const OpId id = graph.add_op(std::move(op), {has_parts ? graph.unused_value_name(output) : output});
    return graph.op(id).outputs[0];
  };
  ValueId x = copier.at(linear.x);
  if (has_parts) {
    x = add({.name = name + "_rows",
             .type = "Flatten",
             .inputs = {x},
             .outputs = {},
             .attributes = {{"axis", std::ssize(linear.shape) - 1}}},
            name + "_rows_out");
  }
  std::vector<ValueId> inputs{x, copier.at(linear.weight)};
  if (linear.bias != kNoValue) inputs.push_back(copier.at(linear.bias));
  ValueId y = add({.name = name,
                   .type = "Gemm",
                   .inputs = std::move(inputs),
                   .outputs = {},
                   .attributes = {{"transB", std::int64_t{1}}}},
                  has_parts ? name + "_rows_result" : result);
  if (has_parts) {
    y = add({.name = name + "_parts",
             .type = "Reshape",
             .inputs = {y},
             .outputs = {},
             .attributes = {{"shape", linear.shape}}},
            result);
  }
  copier.replace(linear.result, y);
}

}  // namespace

Graph recognize_linear(const Graph& forward) {
  const LinearFinder finder(forward);
  std::map<OpId, Linear> by_last;
  std::set<OpId> inside;
  std::set<ValueId> turned;
  for (OpId id = 0; id < std::ssize(forward.ops()); ++id) {
    const std::optional<Linear> found = finder.find(id);
    if (!found) continue;
    inside.insert(found->product);
    turned.insert(forward.op(found->product).inputs[1]);
    by_last.emplace(found->sum == kNoOp ? found->product : found->sum, *found);
  }
  // Turned weights that nobody else reads.
  for (OpId id = 0; id < std::ssize(forward.ops()); ++id) {
    if (inside.contains(id)) continue;
    for (const ValueId input : forward.op(id).inputs) turned.erase(input);
  }
  for (const ValueId id : turned) inside.insert(forward.value(id).producer);
  GraphCopier copier(forward);
  for (OpId id = 0; id < std::ssize(forward.ops()); ++id) {
    if (const auto found = by_last.find(id); found != by_last.end()) {
      add_linear(copier, forward, found->second);
    } else if (!inside.contains(id)) {
      copier.copy(forward.op(id));
    }
  }
  return copier.finish();
}

}  // namespace rookery
