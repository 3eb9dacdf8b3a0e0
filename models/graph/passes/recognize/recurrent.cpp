// Weights of recurrent layers as PyTorch keeps them, which exporters put into ONNX's order on the way.
#include <algorithm>
#include <optional>
#include <set>

#include "models/graph/graph_copier.hpp"
#include "models/graph/op_definition.hpp"
#include "models/graph/ops/element_ranges.hpp"
#include "models/graph/ops/recurrent.hpp"
#include "models/graph/passes/recognize/recognize.hpp"

namespace rookery {
namespace {

// Elements of a value side by side, in row-major order.
struct Run {
  ValueId value = kNoValue;
  std::int64_t first = 0;
};

class WeightFinder {
 public:
  explicit WeightFinder(const Graph& graph) : graph_(graph), types_(batch_types(graph)) {}

  // The parameter of the layer's `order` of gates that input `position` is made of; kNoValue where it is made
  // of anything else.
  ValueId parameter(const Op& op, std::size_t position, const std::string& order) const {
    const ValueId value = op.inputs[position];
    const Shape& shape = type(value).shape;
    const auto gates = recurrent_gates(op);
    const std::int64_t block = shape.elements() / gates;
    ValueId found = kNoValue;
    for (std::int64_t gate = 0; gate < gates; ++gate) {
      const char letter = gates_of(op).at(gate);
      const Run run = trace({value, gate * block}, block);
      const bool is_there = run.first == static_cast<std::int64_t>(order.find(letter)) * block;
      if (!is_there || (gate > 0 && run.value != found)) return kNoValue;
      found = run.value;
    }
    const bool fits = graph_.value(found).kind == ValueKind::kParameter && type(found).shape == shape;
    return fits ? found : kNoValue;
  }

 private:
  const TensorType& type(ValueId id) const { return types_[id]; }

  // Where `count` elements come from, through ops that only take and join parts.
  Run trace(Run run, std::int64_t count) const {
    for (;;) {
      const OpId producer = graph_.value(run.value).producer;
      if (producer == kNoOp) return run;
      const Op& op = graph_.op(producer);
      const std::optional<Run> before = step(op, run, count);
      if (!before) return run;
      run = *before;
    }
  }

  std::optional<Run> step(const Op& op, const Run& run, std::int64_t count) const {
    if (op.type == "Squeeze" || op.type == "Unsqueeze" || op.type == "Reshape" || op.type == "Identity")
      return Run{op.inputs[0], run.first};
    if (op.type == "Concat") return part_of(op, run, count);
    const Shape& from = type(op.inputs[0]).shape;
    if (op.type == "Split") {
      const int axis = axis_of(op.integer("axis", 0), from.rank());
      if (!is_outermost(from, axis)) return std::nullopt;
      const auto sizes = split_of(op, from[axis], op.outputs.size());
      std::int64_t before = 0;
      for (std::size_t i = 0; op.outputs[i] != run.value; ++i) before += sizes[i];
      return Run{op.inputs[0], run.first + before * elements_behind(from, axis)};
    }
    if (op.type == "Slice") {
      const std::vector<AxisRange> ranges = slice_of(op, from);
      int cut = 0;
      while (cut < from.rank() && ranges[cut].size == from[cut] && from[cut] == 1) ++cut;
      if (cut == from.rank()) return Run{op.inputs[0], run.first};
      for (int axis = cut; axis < from.rank(); ++axis) {
        const AxisRange& range = ranges[axis];
        if (range.step != 1 || (axis > cut && range.size != from[axis])) return std::nullopt;
      }
      return Run{op.inputs[0], run.first + ranges[cut].start * elements_behind(from, cut)};
    }
    return std::nullopt;
  }

  // The part of a Concat that has all the elements.
  std::optional<Run> part_of(const Op& op, const Run& run, std::int64_t count) const {
    const Shape& joined = type(op.outputs[0]).shape;
    if (!is_outermost(joined, axis_of(op.integer("axis", 0), joined.rank()))) return std::nullopt;
    std::int64_t first = run.first;
    for (const ValueId part : op.inputs) {
      const std::int64_t size = type(part).shape.elements();
      if (first < size) return first + count <= size ? std::optional(Run{part, first}) : std::nullopt;
      first -= size;
    }
    return std::nullopt;
  }

  static bool is_outermost(const Shape& shape, int axis) {
    for (int i = 0; i < axis; ++i) {
      if (shape[i] != 1) return false;
    }
    return true;
  }

  static std::int64_t elements_behind(const Shape& shape, int axis) {
    std::int64_t count = 1;
    for (int i = axis + 1; i < shape.rank(); ++i) count *= shape[i];
    return count;
  }

  const Graph& graph_;  // outlives the finder: both live in recognize_recurrent()
  std::vector<TensorType> types_;
};

// The layer on the parameters themselves, in the order that they have; nothing where it has others already,
// or its weights are no parameters.
std::optional<Op> on_parameters(const WeightFinder& finder, const Op& op) {
  const GateOrders* orders = gate_orders(op);
  if (orders == nullptr) return std::nullopt;
  Op found = op;
  for (const std::size_t position : {kRecurrentW, kRecurrentR, kRecurrentInputBias, kRecurrentStateBias}) {
    if (!is_present(op.inputs, position)) continue;
    found.inputs[position] = finder.parameter(op, position, orders->torch);
    if (found.inputs[position] == kNoValue) return std::nullopt;
  }
  if (found.inputs == op.inputs) return std::nullopt;
  if (op.type != "RNN") found.attributes["gates"] = std::string(orders->torch);
  return found;
}

}  // namespace

Graph recognize_recurrent(const Graph& forward) {
  const WeightFinder finder(forward);
  std::vector<Op> ops = forward.ops();
  // What made the old weights, where nobody else needs it.
  std::set<ValueId> old;
  for (Op& op : ops) {
    std::optional<Op> found = on_parameters(finder, op);
    if (!found) continue;
    for (std::size_t i = kRecurrentW; i <= kRecurrentStateBias && i < op.inputs.size(); ++i)
      old.insert(op.inputs[i]);
    op = std::move(*found);
  }
  if (old.empty()) return forward;
  std::vector<int> reads(forward.values().size());
  for (const ValueId output : forward.outputs()) ++reads[output];
  for (const Op& op : ops) {
    for (const ValueId input : op.inputs) {
      if (input != kNoValue) ++reads[input];
    }
  }
  std::vector<bool> gone(ops.size(), false);
  for (std::size_t id = ops.size(); id-- > 0;) {
    const Op& op = ops[id];
    const bool makes_old =
        std::ranges::any_of(op.outputs, [&](ValueId output) { return old.contains(output); });
    const bool is_read = std::ranges::any_of(
        op.outputs, [&](ValueId output) { return output != kNoValue && reads[output] > 0; });
    if (!makes_old || is_read) continue;
    gone[id] = true;
    for (const ValueId input : op.inputs) {
      if (input == kNoValue) continue;
      --reads[input];
      old.insert(input);
    }
  }
  GraphCopier copier(forward);
  for (std::size_t id = 0; id < ops.size(); ++id) {
    if (!gone[id]) copier.copy(ops[id]);
  }
  return copier.finish();
}

}  // namespace rookery
