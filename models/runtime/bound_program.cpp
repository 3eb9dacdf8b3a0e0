#include "models/runtime/bound_program.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <utility>

#include "models/base/check.hpp"
#include "models/graph/passes/memory/updates_in_backward.hpp"

namespace rookery {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPhases = 3;
constexpr std::size_t kPorts = 5;
// The first micro-batch of a step writes the gradients of parameters, later ones add to them.
enum Turn : std::size_t { kFirst, kLater, kTurns };

std::byte* address(const std::vector<std::byte*>& slots, std::byte* transient, std::size_t slot,
                   const WorkingPlace& place) {
  return (place.in_slot ? slots[slot] : transient) + place.offset;
}

}  // namespace

// An op with its memory: everything run() needs, prepared once.
struct BoundProgram::BoundOp {
  OpId id = kNoOp;  // in the variant's graph
  Kernel* kernel = nullptr;
  std::vector<ConstTensorView> inputs;
  std::vector<TensorView> outputs;
  std::byte* scratch = nullptr;
  // Gradients of parameters that this op made in working memory, to be added to those of the
  // micro-batches before.
  struct Sum {
    float* total;
    const float* share;
    std::size_t count;
  };
  std::vector<Sum> sums;
  std::vector<std::string> completed;        // parameters whose gradient has its only term from this op
  std::vector<ParameterInBackward> updates;  // that follow it

  // What it reads of `bytes` from one place on it reads from another one.
  void move_inputs(const std::byte* from, std::size_t bytes, const std::byte* to) {
    for (ConstTensorView& input : inputs) {
      if (std::less_equal<>()(from, input.data) && std::less<>()(input.data, from + bytes))
        input.data = to + (input.data - from);
    }
  }

  void run(const StepContext& context, const Arithmetic& arithmetic) const {
    kernel->run(inputs, outputs, scratch, context);
    for (const Sum& sum : sums) arithmetic.add(sum.total, sum.share, sum.count);
  }
};

struct BoundProgram::BoundSlot {
  std::array<std::array<std::vector<BoundOp>, kTurns>, kPhases> ops;
  std::size_t version = 0;  // of the weights that they read

  std::vector<BoundOp>& of(Phase phase, Turn turn) { return ops[static_cast<std::size_t>(phase)][turn]; }
  const std::vector<BoundOp>& of(Phase phase, Turn turn) const {
    return ops[static_cast<std::size_t>(phase)][turn];
  }
};

struct BoundProgram::BoundVariant {
  CompiledVariant compiled;
  std::map<ValueId, std::size_t> gradient_offsets;  // of what the gradient arena holds
  std::map<ValueId, std::string> completed_by;      // the parameter of which this is all of the gradient
  std::multimap<OpId, UpdateInBackward> updates;    // by the op that they follow
  std::vector<std::byte*> slot_memory;              // where the stash of each slot begins
  std::byte* transient = nullptr;                   // after the last of them
  std::vector<BoundSlot> slots;
  std::array<std::vector<ValueId>, kPorts> ports;  // by Port, then by number; kNoValue: there is none

  std::vector<ValueId>& of(Port port) { return ports[static_cast<std::size_t>(port)]; }
  const std::vector<ValueId>& of(Port port) const { return ports[static_cast<std::size_t>(port)]; }
};

BoundProgram::BoundProgram(const Stage& stage, std::vector<CompiledVariant> variants, int slots,
                           bool accumulates, Arenas& arenas)
    : stage_(stage), arenas_(arenas) {
  const std::size_t bytes_of_slot = slot_bytes(variants);
  for (CompiledVariant& variant : variants)
    variants_.push_back(bind(std::move(variant), slots, bytes_of_slot, accumulates));
}

BoundProgram::~BoundProgram() = default;
BoundProgram::BoundProgram(BoundProgram&&) noexcept = default;

// Passes number the values of a variant anew, and keep the names of what passes the border.
void BoundProgram::find_ports(BoundVariant& variant) const {
  const TrainingGraph& training = variant.compiled.training;
  const auto gradient_in = [](const std::map<ValueId, ValueId>& table, ValueId id) {
    const auto found = table.find(id);
    return found == table.end() ? kNoValue : found->second;
  };
  for (const StageInput& input : stage_.inputs) {
    const ValueId id = training.graph.at(input.value);
    variant.of(Port::kInput).push_back(id);
    variant.of(Port::kPartialGradient).push_back(gradient_in(training.received_gradients, id));
    variant.of(Port::kInputGradient).push_back(gradient_in(training.sent_gradients, id));
  }
  for (const StageOutput& output : stage_.outputs) {
    const ValueId id = training.graph.at(output.value);
    variant.of(Port::kOutput).push_back(id);
    variant.of(Port::kOutputGradient).push_back(gradient_in(training.received_gradients, id));
  }
}

BoundProgram::BoundVariant BoundProgram::bind(CompiledVariant compiled, int slots, std::size_t bytes_of_slot,
                                              bool accumulates) const {
  BoundVariant variant{.compiled = std::move(compiled)};
  find_ports(variant);
  for (const std::shared_ptr<Kernel>& kernel : variant.compiled.kernels) {
    if (kernel) kernel->prepare();
  }
  const auto count = static_cast<std::size_t>(slots);
  for (std::size_t slot = 0; slot < count; ++slot)
    variant.slot_memory.push_back(arenas_.working(slot * bytes_of_slot));
  variant.transient = arenas_.working(count * bytes_of_slot);
  for (const auto& [parameter, uses] : variant.compiled.training.parameter_gradients) {
    if (variant.compiled.training.updated_in_backward.contains(parameter)) continue;
    const std::string& name = variant.compiled.training.graph.value(parameter).name;
    const std::vector<std::size_t>& terms = arenas_.layout().gradient_terms.at(name);
    const std::size_t first = terms.size() - uses.size();  // 1 after a partial sum of later stages
    for (std::size_t i = 0; i < uses.size(); ++i) variant.gradient_offsets[uses[i]] = terms[first + i];
    const bool is_shared =
        std::ranges::find(stage_.shared, name, &SharedParameter::parameter) != stage_.shared.end();
    if (terms.size() == 1 && !is_shared) variant.completed_by[uses.front()] = name;
  }
  for (const UpdateInBackward& update : updates_in_backward(variant.compiled.training))
    variant.updates.emplace(update.after, update);
  for (std::size_t slot = 0; slot < count; ++slot) {
    BoundSlot bound;
    for (OpId op = 0; op < std::ssize(variant.compiled.kernels); ++op) {
      if (!variant.compiled.kernels[op]) continue;
      const Phase phase = variant.compiled.training.phases[op];
      bound.of(phase, kFirst).push_back(bind_op(variant, slot, op, false));
      if (phase != Phase::kForward && accumulates)
        bound.of(phase, kLater).push_back(bind_op(variant, slot, op, true));
    }
    variant.slots.push_back(std::move(bound));
  }
  return variant;
}

BoundProgram::BoundOp BoundProgram::bind_op(const BoundVariant& variant, std::size_t slot, OpId id,
                                            bool later) const {
  const Op& op = variant.compiled.training.graph.op(id);
  BoundOp bound{.id = id, .kernel = variant.compiled.kernels[id].get()};
  for (const ValueId input : op.inputs) bound.inputs.push_back(place(variant, slot, input, later));
  for (const ValueId output : op.outputs) {
    bound.outputs.push_back(place(variant, slot, output, later));
    if (const auto parameter = variant.completed_by.find(output); parameter != variant.completed_by.end())
      bound.completed.push_back(parameter->second);
    if (!later || !variant.gradient_offsets.contains(output)) continue;
    const TensorView total = place(variant, slot, output);
    bound.sums.push_back({.total = reinterpret_cast<float*>(total.data),
                          .share = reinterpret_cast<float*>(bound.outputs.back().data),
                          .count = static_cast<std::size_t>(total.elements())});
  }
  const auto updates = variant.updates.equal_range(id);
  for (auto each = updates.first; each != updates.second; ++each) {
    const auto& [parameter, gradient, after] = each->second;
    bound.updates.push_back(arenas_.in_backward(variant.compiled.training.graph.value(parameter).name,
                                                place(variant, slot, gradient)));
  }
  bound.scratch = address(variant.slot_memory, variant.transient, slot, variant.compiled.plan.scratch[id]);
  return bound;
}

// The place of a value; `accumulate`: of the share of a micro-batch in a gradient of a parameter.
TensorView BoundProgram::place(const BoundVariant& variant, std::size_t slot, ValueId id,
                               bool accumulate) const {
  if (id == kNoValue) return {};
  const Graph& graph = variant.compiled.training.graph;
  const TensorType& type = variant.compiled.types[id];
  const ValuePlace& place = variant.compiled.plan.places[id];
  Device* const device = arenas_.processor().device();
  if (place.placement == Placement::kState) {
    // Passes number the values of a variant anew: the stage's has the same name.
    const ValueId owner = stage_.graph.at(graph.value(memory_owner(graph, id)).name);
    const std::size_t version = slot < variant.slots.size() ? variant.slots[slot].version : 0;
    return {type, arenas_.state(owner, version).data, device};
  }
  if (place.placement == Placement::kGradient && !accumulate)
    return {type, arenas_.gradient(variant.gradient_offsets.at(id)), device};
  return {type, address(variant.slot_memory, variant.transient, slot, place.at), device};
}

void BoundProgram::use_weights(std::size_t slot, std::size_t version) {
  WeightVersions& weights = arenas_.weights();
  for (BoundVariant& variant : variants_) {
    BoundSlot& bound = variant.slots[slot];
    const std::size_t before = std::exchange(bound.version, version);
    if (before == version) continue;
    for (auto& turns : bound.ops) {
      for (std::vector<BoundOp>& ops : turns) {
        for (BoundOp& op : ops)
          op.move_inputs(weights.version(before), weights.bytes(), weights.version(version));
      }
    }
  }
}

const BoundProgram::BoundVariant& BoundProgram::variant_of(const MicroBatch& micro_batch) const {
  const auto found = std::ranges::find(variants_, micro_batch.size,
                                       [](const BoundVariant& variant) { return variant.compiled.size; });
  ROOKERY_CHECK(found != variants_.end(), "stage {} was not compiled for micro-batches of {}", stage_.index,
                micro_batch.size);
  ROOKERY_CHECK(micro_batch.slot >= 0 && micro_batch.slot < std::ssize(found->slots), "slot {} of {}",
                micro_batch.slot, found->slots.size());
  return *found;
}

void BoundProgram::check(const MicroBatch& micro_batch) const {
  variant_of(micro_batch);
}

TensorView BoundProgram::view(Port port, std::size_t i, const MicroBatch& micro_batch) const {
  const BoundVariant& variant = variant_of(micro_batch);
  const ValueId id = variant.of(port).at(i);
  ROOKERY_CHECK(id != kNoValue, "stage {} has no such gradient of its number {}", stage_.index, i);
  return place(variant, static_cast<std::size_t>(micro_batch.slot), id);
}

void BoundProgram::run(Phase phase, const MicroBatch& micro_batch, const Executable::GradientDone& done,
                       const Update& update) {
  const BoundVariant& variant = variant_of(micro_batch);
  const Turn turn = phase == Phase::kForward || micro_batch.index == 0 ? kFirst : kLater;
  const std::vector<BoundOp>& ops = variant.slots[micro_batch.slot].of(phase, turn);
  const StepContext context{.step = micro_batch.step,
                            .micro_batch = micro_batch.preceding + micro_batch.index,
                            .loss_weight = micro_batch.loss_weight};
  const Arithmetic& arithmetic = arenas_.processor().arithmetic();
  const bool is_timed = !op_seconds_.empty() && &variant == &variants_.front();
  for (const BoundOp& op : ops) {
    const auto begin = is_timed ? Clock::now() : Clock::time_point();
    op.run(context, arithmetic);
    if (is_timed) op_seconds_[op.id] += std::chrono::duration<double>(Clock::now() - begin).count();
    for (const ParameterInBackward& parameter : op.updates) update(parameter);
    if (!done) continue;
    for (const std::string& parameter : op.completed) done(parameter);
  }
}

void BoundProgram::time_ops() {
  ROOKERY_CHECK(!variants_.empty(), "stage {} is not trained", stage_.index);
  op_seconds_.assign(variants_.front().compiled.kernels.size(), 0);
}

std::vector<OpTime> BoundProgram::op_times() const {
  std::vector<OpTime> times;
  std::string owner = stage_.graph.op(0).name;
  for (OpId id = 0; id < std::ssize(op_seconds_); ++id) {
    const TrainingGraph& training = variants_.front().compiled.training;
    const Op& op = training.graph.op(id);
    // A conversion of layout is nobody's: it counts with the op before it.
    const std::string forward = op.text("forward", op.name);
    if (stage_.graph.has_op(forward)) owner = forward;
    times.push_back({.name = op.name,
                     .type = op.type,
                     .forward = owner,
                     .phase = training.phases[id],
                     .seconds = op_seconds_[id]});
  }
  return times;
}

}  // namespace rookery
