#include "models/graph/memory_plan.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "models/graph/ops.hpp"

namespace rookery {
namespace {

constexpr int kNever = -1;

// Ops are numbered in the order they run: forward, gradients of inputs, gradients of weights.
// `forward_end` and `end` are the first moments after the last forward op and after all.
struct Timeline {
  std::vector<int> time;  // by OpId
  int forward_end = 0;
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
    if (phase == Phase::kBackwardInputs) ++now;
  }
  timeline.end = now;
  return timeline;
}

struct Lifetime {
  int first = std::numeric_limits<int>::max();
  int last = kNever;
  std::size_t bytes = 0;

  void cover(int time) {
    first = std::min(first, time);
    last = std::max(last, time);
  }
  bool meets(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

// Offsets so that lifetimes that meet do not share memory; returns the size of it all.
std::size_t first_fit(std::span<const Lifetime> lives, std::span<std::size_t> offsets) {
  std::vector<std::size_t> order(lives.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return lives[a].bytes > lives[b].bytes; });
  std::vector<std::size_t> placed;  // by rising offset
  std::size_t total = 0;
  for (const std::size_t item : order) {
    if (lives[item].bytes == 0 || lives[item].last == kNever) continue;
    std::size_t offset = 0;
    for (const std::size_t other : placed) {
      if (!lives[other].meets(lives[item])) continue;
      if (offset + lives[item].bytes <= offsets[other]) break;
      offset = std::max(offset, offsets[other] + lives[other].bytes);
    }
    offsets[item] = offset;
    total = std::max(total, offset + lives[item].bytes);
    placed.insert(std::ranges::upper_bound(placed, offset, {}, [&](std::size_t i) { return offsets[i]; }),
                  item);
  }
  return total;
}

class Planner {
 public:
  Planner(const Graph& graph, std::span<const Phase> phases, std::span<const TensorType> types,
          std::span<const std::size_t> scratch_bytes)
      : graph_(graph), timeline_(timeline_of(phases)), lives_(graph.values().size() + graph.ops().size()) {
    plan_.places.resize(graph.values().size());
    plan_.scratch.resize(graph.ops().size());
    for (std::size_t id = 0; id < graph.values().size(); ++id) lives_[id].bytes = align_up(types[id].bytes());
    for (std::size_t op = 0; op < graph.ops().size(); ++op) {
      Lifetime& scratch = lives_[graph.values().size() + op];
      scratch.bytes = align_up(scratch_bytes[op]);
      scratch.cover(timeline_.time[op]);
    }
    cover_uses();
  }

  const Timeline& timeline() const { return timeline_; }
  void cover(ValueId value, int time) { life_of(value).cover(time); }

  // `accumulates`: gradients of parameters have a transient place too.
  MemoryPlan finish(const std::map<ValueId, ValueId>& parameter_gradients, bool accumulates) {
    for (const auto& [parameter, gradient] : parameter_gradients) {
      ROOKERY_CHECK(memory_owner(graph_, gradient) == gradient, "the gradient of '{}' is a view",
                    graph_.value(parameter).name);
      plan_.places[index(gradient)].placement = Placement::kGradient;
    }
    std::size_t stash = 0;
    for (std::size_t id = 0; id < graph_.values().size(); ++id) {
      ValuePlace& place = plan_.places[id];
      const ValueKind kind = graph_.values()[id].kind;
      if (kind == ValueKind::kParameter || kind == ValueKind::kBuffer) place.placement = Placement::kState;
      if (place.placement == Placement::kTransient && lives_[id].first <= timeline_.forward_end &&
          lives_[id].last > timeline_.forward_end) {
        place = {Placement::kStash, stash};
        stash += lives_[id].bytes;
      }
      const bool transient = place.placement == Placement::kTransient ||
                             (place.placement == Placement::kGradient && accumulates);
      if (!transient) lives_[id].last = kNever;
    }
    plan_.stash_bytes = stash;
    std::vector<std::size_t> offsets(lives_.size());
    plan_.transient_bytes = first_fit(lives_, offsets);
    for (std::size_t id = 0; id < graph_.values().size(); ++id) {
      if (lives_[id].last != kNever) plan_.places[id].offset = offsets[id];
    }
    std::copy(offsets.begin() + std::ssize(graph_.values()), offsets.end(), plan_.scratch.begin());
    share_views();
    return std::move(plan_);
  }

 private:
  static std::size_t index(ValueId value) { return static_cast<std::size_t>(value); }
  Lifetime& life_of(ValueId value) { return lives_[index(memory_owner(graph_, value))]; }

  void cover_uses() {
    for (std::size_t op = 0; op < graph_.ops().size(); ++op) {
      for (const auto& ids : {graph_.ops()[op].inputs, graph_.ops()[op].outputs}) {
        for (const ValueId id : ids) {
          if (id != kNoValue) cover(id, timeline_.time[op]);
        }
      }
    }
  }

  void share_views() {
    for (std::size_t id = 0; id < plan_.places.size(); ++id) {
      plan_.places[id] = plan_.places[index(memory_owner(graph_, static_cast<ValueId>(id)))];
    }
  }

  const Graph& graph_;  // outlives the planner: both live in plan_memory()
  Timeline timeline_;
  std::vector<Lifetime> lives_;  // of values by ValueId, then of scratch memory by OpId
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

MemoryPlan plan_memory(const TrainingGraph& training, std::span<const TensorType> types,
                       std::span<const std::size_t> scratch_bytes, bool accumulates) {
  const Graph& graph = training.graph;
  Planner planner(graph, training.phases, types, scratch_bytes);
  const Timeline& timeline = planner.timeline();
  for (const ValueId input : graph.inputs()) {
    if (graph.value(input).like == kNoValue) planner.cover(input, 0);
  }
  for (const ValueId output : graph.outputs()) planner.cover(output, timeline.forward_end);
  for (const auto& [value, gradient] : training.received_gradients)
    planner.cover(gradient, timeline.forward_end + 1);
  for (const auto& [value, gradient] : training.sent_gradients) planner.cover(gradient, timeline.end);
  return planner.finish(training.parameter_gradients, accumulates);
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
  return planner.finish({}, false);
}

}  // namespace rookery
