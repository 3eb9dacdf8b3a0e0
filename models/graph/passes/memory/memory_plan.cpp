#include "models/graph/passes/memory/memory_plan.hpp"

#include <algorithm>
#include <numeric>

#include "models/graph/op_attributes.hpp"
#include "models/graph/op_definition.hpp"
#include "models/graph/passes/memory/memory_packing.hpp"
#include "models/graph/passes/memory/updates_in_backward.hpp"

namespace rookery {
namespace {

// Ops are numbered in the order they run: forward, gradients of inputs, gradients of weights.
// `forward_end`, `inputs_end` and `end` are the first moments after the last op of each.
struct Timeline {
  std::vector<int> time;  // by OpId
  int forward_end = 0;
  int inputs_end = 0;
  int end = 0;
};

Timeline timeline_of(std::span<const Phase> phases) {
  Timeline timeline{.time = std::vector<int>(phases.size())};
  int now = 1;  // 0 is when inputs arrive
  for (const Phase phase : {Phase::kForward, Phase::kBackwardInputs, Phase::kBackwardWeights}) {
    for (std::size_t op = 0; op < phases.size(); ++op) {
      if (phases[op] == phase) timeline.time[op] = now++;
    }
    // Between the phases outputs are read and gradients arrive.
    if (phase == Phase::kForward) timeline.forward_end = now++;
    if (phase == Phase::kBackwardInputs) timeline.inputs_end = now++;
  }
  timeline.end = now;
  return timeline;
}

class Planner {
 public:
  Planner(const Graph& graph, std::span<const Phase> phases, std::span<const TensorType> types,
          std::span<const std::size_t> scratch_bytes, bool delays_weights = false)
      : graph_(graph), types_(types), timeline_(timeline_of(phases)), pauses_{timeline_.forward_end} {
    if (delays_weights) pauses_.push_back(timeline_.inputs_end);
    const std::size_t values = graph.values().size();
    plan_.places.resize(values);
    lives_.resize(values + graph.ops().size());
    for (std::size_t id = 0; id < values; ++id) {
      lives_[id].bytes = align_up(types[id].bytes());
      blocks_.push_back(memory_owner(graph, static_cast<ValueId>(id)));
      const ValueKind kind = graph.values()[id].kind;
      if (kind == ValueKind::kParameter || kind == ValueKind::kBuffer || kind == ValueKind::kConstant)
        plan_.places[id].placement = Placement::kState;
    }
    for (std::size_t op = 0; op < graph.ops().size(); ++op) {
      lives_[values + op].bytes = align_up(scratch_bytes[op]);
      lives_[values + op].cover(timeline_.time[op]);
    }
    cover_uses();
  }

  const Timeline& timeline() const { return timeline_; }
  void cover(ValueId value, int time) { lives_[block_of(value)].cover(time); }

  // `accumulates`: gradients of parameters have a working place too. After all cover()s.
  void settle(const std::map<ValueId, std::vector<ValueId>>& parameter_gradients,
              const std::set<ValueId>& updated_in_backward, bool accumulates) {
    for (const auto& [parameter, gradients] : parameter_gradients) {
      for (const ValueId gradient : gradients) {
        ROOKERY_CHECK(memory_owner(graph_, gradient) == gradient, "the gradient of '{}' is a view",
                      graph_.value(parameter).name);
        if (!updated_in_backward.contains(parameter)) place_of(gradient).placement = Placement::kGradient;
      }
    }
    write_in_place();
    forget_what_is_elsewhere(accumulates);
  }

  MemoryDemand demand() const {
    MemoryDemand demand{.live_bytes = live_bytes(lives_)};
    for (const std::size_t buffer : stashed()) demand.stash_bytes += lives_[buffer].bytes;
    return demand;
  }

  MemoryPlan finish() {
    const Packing packing = pack(lives_, stashed());
    plan_.stash_bytes = packing.fence;
    plan_.transient_bytes = packing.bytes - packing.fence;
    plan_.live_bytes = live_bytes(lives_);
    const auto place = [&](std::size_t buffer) {
      const std::size_t offset = packing.offsets[buffer];
      const bool in_slot = offset < packing.fence;
      return WorkingPlace{.in_slot = in_slot, .offset = in_slot ? offset : offset - packing.fence};
    };
    const std::size_t values = blocks_.size();
    for (std::size_t id = 0; id < values; ++id) {
      const std::size_t block = block_of(static_cast<ValueId>(id));
      plan_.places[id] = {plan_.places[block].placement, place(block)};
    }
    for (std::size_t op = values; op < lives_.size(); ++op) plan_.scratch.push_back(place(op));
    return std::move(plan_);
  }

 private:
  std::size_t block_of(ValueId value) const { return blocks_[value]; }
  ValuePlace& place_of(ValueId value) { return plan_.places[value]; }

  void cover_uses() {
    for (std::size_t op = 0; op < graph_.ops().size(); ++op) {
      for (const auto& ids : {graph_.ops()[op].inputs, graph_.ops()[op].outputs}) {
        for (const ValueId id : ids) {
          if (id != kNoValue) cover(id, timeline_.time[op]);
        }
      }
    }
  }

  // Joins the block of an op's output with that of an input which it may be written over.
  void write_in_place() {
    std::vector<std::size_t> order(graph_.ops().size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](std::size_t op) { return timeline_.time[op]; });
    for (const std::size_t i : order) {
      const Op& op = graph_.ops()[i];
      if (is_view(op)) continue;
      for (const std::size_t input : op_definition(op.type).in_place) {
        if (!may_overwrite(op, input, timeline_.time[i])) continue;
        join(blocks_[op.inputs[input]], op.outputs[0]);
        break;
      }
    }
  }

  bool may_overwrite(const Op& op, std::size_t input, int now) const {
    if (op.outputs.empty() || op.outputs[0] == kNoValue) return false;
    if (input >= op.inputs.size() || op.inputs[input] == kNoValue) return false;
    const ValueId from = op.inputs[input];
    const ValueId block = blocks_[from];
    const auto is_working = [&](ValueId id) {
      return plan_.places[id].placement == Placement::kWorking &&
             graph_.value(id).kind == ValueKind::kActivation;
    };
    // Another view of the same memory may be read in another order.
    const bool is_read_twice = std::ranges::any_of(op.inputs, [&](ValueId other) {
      return other != kNoValue && other != from && blocks_[other] == block;
    });
    return is_working(block) && is_working(op.outputs[0]) && !is_read_twice &&
           types_[from] == types_[op.outputs[0]] && lives_[block].bytes == lives_[op.outputs[0]].bytes &&
           lives_[block].last == now;
  }

  // The output's block, which is its own and that of its views so far, becomes part of `block`.
  void join(ValueId block, ValueId output) {
    Lifetime& life = lives_[output];
    lives_[block].cover(life.last);
    life = Lifetime();
    std::ranges::replace(blocks_, output, block);
  }

  // What the runtime places needs no room here.
  void forget_what_is_elsewhere(bool accumulates) {
    for (std::size_t id = 0; id < blocks_.size(); ++id) {
      const Placement placement = plan_.places[id].placement;
      if (placement == Placement::kState || (placement == Placement::kGradient && !accumulates))
        lives_[id] = Lifetime();
    }
  }

  // What lives on while others may run, in the order in which it is made: it dies in about the reverse order,
  // so that what is free of the slot at any time is mostly one piece at its end.
  std::vector<std::size_t> stashed() const {
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < lives_.size(); ++i) {
      const Lifetime& life = lives_[i];
      const auto lives_on = [&](int pause) { return life.first <= pause && life.last > pause; };
      if (life.is_used() && std::ranges::any_of(pauses_, lives_on)) result.push_back(i);
    }
    std::ranges::stable_sort(result, {}, [&](std::size_t i) { return lives_[i].first; });
    return result;
  }

  const Graph& graph_;  // outlives the planner: both live in plan_memory()
  std::span<const TensorType> types_;
  Timeline timeline_;
  std::vector<int> pauses_;      // moments after which other micro-batches may run
  std::vector<ValueId> blocks_;  // by ValueId: the value whose memory it shares
  std::vector<Lifetime> lives_;  // of blocks by ValueId, then of scratch memory by OpId
  MemoryPlan plan_;
};

}  // namespace

ValueId memory_owner(const Graph& graph, ValueId value) {
  for (;;) {
    const OpId producer = graph.value(value).producer;
    if (producer == kNoOp || !is_view(graph.op(producer))) return value;
    value = graph.op(producer).inputs.at(0);
  }
}

namespace {

Planner planner_of(const TrainingGraph& training, std::span<const TensorType> types,
                   std::span<const std::size_t> scratch_bytes, StepShape step) {
  const Graph& graph = training.graph;
  Planner planner(graph, training.phases, types, scratch_bytes, step.delays_weights);
  const Timeline& timeline = planner.timeline();
  for (const ValueId input : graph.inputs()) {
    if (graph.value(input).like == kNoValue) planner.cover(input, 0);
  }
  for (const ValueId output : graph.outputs()) planner.cover(output, timeline.forward_end);
  for (const auto& [value, gradient] : training.received_gradients)
    planner.cover(gradient, timeline.forward_end + 1);
  // They are sent before anything else runs.
  for (const auto& [value, gradient] : training.sent_gradients) planner.cover(gradient, timeline.inputs_end);
  for (const UpdateInBackward& update : updates_in_backward(training))
    planner.cover(update.gradient, timeline.time[static_cast<std::size_t>(update.after)]);
  planner.settle(training.parameter_gradients, training.updated_in_backward, step.accumulates);
  return planner;
}

}  // namespace

MemoryPlan plan_memory(const TrainingGraph& training, std::span<const TensorType> types,
                       std::span<const std::size_t> scratch_bytes, StepShape step) {
  return planner_of(training, types, scratch_bytes, step).finish();
}

MemoryDemand memory_demand(const TrainingGraph& training, std::span<const TensorType> types,
                           std::span<const std::size_t> scratch_bytes, StepShape step) {
  return planner_of(training, types, scratch_bytes, step).demand();
}

MemoryPlan plan_memory(const Graph& forward, std::span<const TensorType> types,
                       std::span<const std::size_t> scratch_bytes) {
  const std::vector<Phase> phases(forward.ops().size(), Phase::kForward);
  Planner planner(forward, phases, types, scratch_bytes);
  for (const ValueId input : forward.inputs()) {
    planner.cover(input, 0);
    planner.cover(input, planner.timeline().forward_end);
  }
  for (const ValueId output : forward.outputs()) planner.cover(output, planner.timeline().forward_end);
  planner.settle({}, {}, false);
  return planner.finish();
}

}  // namespace rookery
