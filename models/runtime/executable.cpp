#include "models/runtime/executable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "models/base/error.hpp"
#include "models/kernels/simd/elementwise.hpp"
#include "models/runtime/compiled_forms.hpp"
#include "models/runtime/parameter_layout.hpp"
#include "models/runtime/weight_versions.hpp"

namespace rookery {
namespace {

// An op with its memory: everything run() needs, prepared once.
struct BoundOp {
  OpId id = kNoOp;  // in the form's graph
  Kernel* kernel = nullptr;
  std::vector<ConstTensorView> inputs;
  std::vector<TensorView> outputs;
  std::byte* scratch = nullptr;
  // Gradients of parameters that this op made in working memory, to be added to those of the
  // micro-batches before.
  struct Sum {
    std::span<float> total;
    std::span<const float> share;
  };
  std::vector<Sum> sums;

  void run(const StepContext& context) const {
    kernel->run(inputs, outputs, scratch, context);
    for (const Sum& sum : sums) {
      for (std::size_t i = 0; i < sum.total.size(); ++i) sum.total[i] += sum.share[i];
    }
  }
};

// The ops of one slot, by phase. The backward phases come twice: as the first micro-batch of a step
// writes gradients of parameters, and as later ones add to them.
struct BoundForm {
  std::vector<BoundOp> forward;
  std::vector<BoundOp> backward_inputs[2];
  std::vector<BoundOp> backward_weights[2];
};
enum : std::size_t { kFirst, kLater };

struct Form {
  CompiledForm compiled;
  std::map<ValueId, std::size_t> gradient_offsets;  // of what the gradient arena holds
  std::vector<BoundForm> slots;
  std::vector<std::byte*> slot_memory;  // where the stash of each slot begins
  std::byte* transient = nullptr;       // after the last of them
};

}  // namespace

struct Executable::Impl {
  // `consumed`: the same state where it is to be freed on the way.
  Impl(const Stage& the_stage, const CompileOptions& the_options, const StateDict& initial,
       StateDict* consumed)
      : Impl(the_stage, the_options, initial, consumed, Forms(the_stage, the_options)) {}

  Impl(const Stage& the_stage, const CompileOptions& the_options, const StateDict& initial,
       StateDict* consumed, Forms forms)
      : stage(the_stage),
        options(the_options),
        optimizer(make_optimizer(options.optimizer)),
        layout(forms.parameter_layout(stage)),
        buffer_layout(lay_out(stage.graph, stage.graph.buffers())),
        constant_layout(lay_out(stage.graph, stage.graph.constants())),
        weights(layout.parameter_bytes),
        buffers(buffer_layout.bytes),
        constants(constant_layout.bytes),
        memory(forms.memory(stage, options)) {
    with_context(fmt::format("stage {}", stage.index), [&] { check_state(stage.graph, initial); });
    for (const auto& ids : {stage.graph.parameters(), stage.graph.buffers()}) {
      for (const ValueId id : ids) {
        const std::string& name = stage.graph.value(id).name;
        copy(initial.at(name).view(), state_view(id));
        if (consumed != nullptr) consumed->erase(name);
      }
    }
    for (const ValueId id : stage.graph.constants()) copy(stage.graph.value(id).data->view(), state_view(id));
    for (const auto& [name, terms] : layout.gradient_terms) {
      const bool is_shared =
          std::ranges::find(stage.shared, name, &SharedParameter::parameter) != stage.shared.end();
      if (!is_shared && terms.size() > 1) summed_here.push_back(name);
    }
    if (!forms.training.empty()) {
      if (options.stashes_weights) weights.stash(options.slots);
      gradients = AlignedBuffer(layout.gradient_bytes);
      for (std::size_t i = 0; i < optimizer->state_names().size(); ++i) {
        optimizer_state.emplace_back(layout.owned_bytes);
      }
    }
    working = AlignedBuffer(static_cast<std::size_t>(memory.stash + memory.workspace));
    const std::size_t training_slot = slot_bytes(forms.training);
    const std::size_t inference_slot = slot_bytes(forms.inference);
    for (CompiledForm& form : forms.training) {
      training.push_back(bind(std::move(form), options.slots, training_slot));
    }
    for (CompiledForm& form : forms.inference) inference.push_back(bind(std::move(form), 1, inference_slot));
  }

  // The stage's value of this name: passes number the values of a form anew.
  ValueId own(const Graph& graph, ValueId id) const { return stage.graph.at(graph.value(id).name); }

  // Buffers, constants, and the newest parameters or those of a slot.
  TensorView state_view(ValueId id, std::optional<std::size_t> slot = std::nullopt) {
    const Value& value = stage.graph.value(id);
    if (value.kind == ValueKind::kParameter) {
      std::byte* const version = slot ? weights.of_slot(*slot) : weights.newest();
      return {value.type, version + layout.parameters.at(value.name)};
    }
    if (value.kind == ValueKind::kBuffer) {
      return {value.type, buffers.data() + buffer_layout.offsets.at(id)};
    }
    return {value.type, constants.data() + constant_layout.offsets.at(id)};
  }

  const TensorType& type_of(const std::string& parameter) const {
    return stage.graph.value(stage.graph.at(parameter)).type;
  }

  // The place of one term of a parameter's gradient; the first is also the total's.
  TensorView term(const std::string& parameter, std::size_t index) {
    return {type_of(parameter), gradients.data() + layout.gradient_terms.at(parameter).at(index)};
  }

  void sum_terms(const std::string& parameter) {
    const std::span<float> total = term(parameter, 0).as<float>();
    for (std::size_t i = 1; i < layout.gradient_terms.at(parameter).size(); ++i) {
      const std::span<const float> share = term(parameter, i).as<float>();
      for (std::size_t j = 0; j < total.size(); ++j) total[j] += share[j];
    }
  }

  // Of the parameters that only this stage uses; once a step.
  void sum_own_gradients() {
    if (is_summed) return;
    is_summed = true;
    for (const std::string& parameter : summed_here) sum_terms(parameter);
  }

  static std::byte* address(const Form& form, std::size_t slot, const WorkingPlace& place) {
    return (place.in_slot ? form.slot_memory[slot] : form.transient) + place.offset;
  }

  // Where a value lies; `accumulate`: the share of a micro-batch in a gradient of a parameter.
  TensorView view(const Form& form, std::size_t slot, ValueId id, bool accumulate = false) {
    if (id == kNoValue) return {};
    const Graph& graph = form.compiled.training.graph;
    const TensorType& type = form.compiled.types[static_cast<std::size_t>(id)];
    const ValuePlace& place = form.compiled.plan.places[static_cast<std::size_t>(id)];
    switch (place.placement) {
      case Placement::kState:
        return {type, state_view(own(graph, memory_owner(graph, id)), slot).data};
      case Placement::kGradient:
        if (accumulate) return {type, address(form, slot, place.at)};
        return {type, gradients.data() + form.gradient_offsets.at(id)};
      case Placement::kWorking:
        return {type, address(form, slot, place.at)};
    }
    ROOKERY_CHECK(false, "value '{}' has no place", graph.value(id).name);
  }

  BoundOp bind_op(const Form& form, std::size_t slot, OpId id, bool later) {
    const TrainingGraph& training_graph = form.compiled.training;
    const Op& op = training_graph.graph.op(id);
    BoundOp bound{.id = id, .kernel = form.compiled.kernels[static_cast<std::size_t>(id)].get()};
    for (const ValueId input : op.inputs) bound.inputs.push_back(view(form, slot, input, later));
    for (const ValueId output : op.outputs) {
      bound.outputs.push_back(view(form, slot, output, later));
      if (!later || !form.gradient_offsets.contains(output)) continue;
      bound.sums.push_back({view(form, slot, output).as<float>(), bound.outputs.back().as<float>()});
    }
    bound.scratch = address(form, slot, form.compiled.plan.scratch[static_cast<std::size_t>(id)]);
    return bound;
  }

  Form bind(CompiledForm compiled, int slots, std::size_t bytes_of_slot) {
    Form form{.compiled = std::move(compiled),
              .slots = std::vector<BoundForm>(static_cast<std::size_t>(slots))};
    for (std::size_t slot = 0; slot < form.slots.size(); ++slot) {
      form.slot_memory.push_back(working.data() + slot * bytes_of_slot);
    }
    form.transient = working.data() + form.slots.size() * bytes_of_slot;
    for (const auto& [parameter, uses] : form.compiled.training.parameter_gradients) {
      const std::string& name = form.compiled.training.graph.value(parameter).name;
      const std::vector<std::size_t>& terms = layout.gradient_terms.at(name);
      const std::size_t first = terms.size() - uses.size();  // 1 after a partial sum of later stages
      for (std::size_t i = 0; i < uses.size(); ++i) form.gradient_offsets[uses[i]] = terms[first + i];
    }
    for (std::size_t slot = 0; slot < form.slots.size(); ++slot) {
      BoundForm& bound = form.slots[slot];
      for (std::size_t op = 0; op < form.compiled.kernels.size(); ++op) {
        if (!form.compiled.kernels[op]) continue;
        const Phase phase = form.compiled.training.phases[op];
        if (phase == Phase::kForward) {
          bound.forward.push_back(bind_op(form, slot, static_cast<OpId>(op), false));
          continue;
        }
        auto& ops = phase == Phase::kBackwardInputs ? bound.backward_inputs : bound.backward_weights;
        for (const std::size_t turn : {kFirst, kLater}) {
          if (turn == kLater && !options.accumulates) continue;
          ops[turn].push_back(bind_op(form, slot, static_cast<OpId>(op), turn == kLater));
        }
      }
    }
    return form;
  }

  Form& form_of(const MicroBatch& micro_batch) {
    auto& forms = micro_batch.mode == Mode::kTraining ? training : inference;
    const auto found =
        std::ranges::find(forms, micro_batch.size, [](const Form& form) { return form.compiled.size; });
    ROOKERY_CHECK(found != forms.end(), "stage {} was not compiled for micro-batches of {}", stage.index,
                  micro_batch.size);
    ROOKERY_CHECK(micro_batch.slot >= 0 && micro_batch.slot < std::ssize(found->slots), "slot {} of {}",
                  micro_batch.slot, found->slots.size());
    return *found;
  }

  BoundForm& bound_form(const MicroBatch& micro_batch) {
    return form_of(micro_batch).slots[static_cast<std::size_t>(micro_batch.slot)];
  }

  // The view of a value of the stage, or of the gradient that `gradients_of` gives it.
  TensorView named_view(const std::string& name, const MicroBatch& micro_batch,
                        std::map<ValueId, ValueId> TrainingGraph::*gradients_of = nullptr) {
    const Form& form = form_of(micro_batch);
    ValueId id = form.compiled.training.graph.at(name);
    if (gradients_of != nullptr) {
      const auto& table = form.compiled.training.*gradients_of;
      const auto found = table.find(id);
      ROOKERY_CHECK(found != table.end(), "'{}' has no such gradient on stage {}", name, stage.index);
      id = found->second;
    }
    return view(form, static_cast<std::size_t>(micro_batch.slot), id);
  }

  void run(const std::vector<BoundOp>& ops, const MicroBatch& micro_batch) {
    const StepContext context{
        .step = micro_batch.step, .micro_batch = micro_batch.index, .loss_weight = micro_batch.loss_weight};
    if (op_seconds.empty() || micro_batch.mode != Mode::kTraining ||
        micro_batch.size != training.front().compiled.size) {
      for (const BoundOp& op : ops) op.run(context);
      return;
    }
    for (const BoundOp& op : ops) {
      const auto begin = std::chrono::steady_clock::now();
      op.run(context);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
      op_seconds[static_cast<std::size_t>(op.id)] += taken.count();
    }
  }

  static std::span<float> floats(AlignedBuffer& buffer) {
    return {reinterpret_cast<float*>(buffer.data()), buffer.size() / sizeof(float)};
  }

  // Totals of the parameters that this stage owns.
  std::span<float> owned_gradients() { return floats(gradients).first(layout.owned_bytes / sizeof(float)); }

  const Stage stage;
  const CompileOptions options;
  const std::unique_ptr<Optimizer> optimizer;
  const ParameterLayout layout;
  const ArenaLayout buffer_layout, constant_layout;
  WeightVersions weights;
  AlignedBuffer buffers, constants, gradients;
  std::vector<std::string> summed_here;        // parameters used here alone whose gradient has several terms
  bool is_summed = false;                      // these are totals
  std::size_t done_slot = 0;                   // of the last backward
  std::vector<AlignedBuffer> optimizer_state;  // one for each of its state names
  AlignedBuffer working;                       // stashes of all slots, then transient memory
  std::vector<Form> training, inference;
  std::vector<double> op_seconds;  // by OpId of the first training form; empty: nothing is timed
  const MemoryUse memory;
};

Executable::Executable(const Stage& stage, const CompileOptions& options, const StateDict& state)
    : impl_(std::make_unique<Impl>(stage, options, state, nullptr)) {}
Executable::Executable(const Stage& stage, const CompileOptions& options, StateDict&& state)
    : impl_(std::make_unique<Impl>(stage, options, state, &state)) {}
Executable::~Executable() = default;
Executable::Executable(Executable&&) noexcept = default;

TensorView Executable::input(std::size_t i, const MicroBatch& micro_batch) {
  return impl_->named_view(impl_->stage.inputs.at(i).value, micro_batch);
}

ConstTensorView Executable::output(std::size_t i, const MicroBatch& micro_batch) const {
  return impl_->named_view(impl_->stage.outputs.at(i).value, micro_batch);
}

TensorView Executable::output_gradient(std::size_t i, const MicroBatch& micro_batch) {
  return impl_->named_view(impl_->stage.outputs.at(i).value, micro_batch, &TrainingGraph::received_gradients);
}

TensorView Executable::partial_gradient(std::size_t i, const MicroBatch& micro_batch) {
  return impl_->named_view(impl_->stage.inputs.at(i).value, micro_batch, &TrainingGraph::received_gradients);
}

ConstTensorView Executable::input_gradient(std::size_t i, const MicroBatch& micro_batch) const {
  return impl_->named_view(impl_->stage.inputs.at(i).value, micro_batch, &TrainingGraph::sent_gradients);
}

void Executable::forward(const MicroBatch& micro_batch) {
  impl_->weights.refresh(static_cast<std::size_t>(micro_batch.slot));
  impl_->run(impl_->bound_form(micro_batch).forward, micro_batch);
}

void Executable::backward_inputs(const MicroBatch& micro_batch) {
  impl_->run(impl_->bound_form(micro_batch).backward_inputs[micro_batch.index == 0 ? kFirst : kLater],
             micro_batch);
}

void Executable::backward_weights(const MicroBatch& micro_batch) {
  impl_->is_summed = false;
  impl_->done_slot = static_cast<std::size_t>(micro_batch.slot);
  impl_->run(impl_->bound_form(micro_batch).backward_weights[micro_batch.index == 0 ? kFirst : kLater],
             micro_batch);
}

TensorView Executable::partial_sum(std::size_t i) {
  return impl_->term(impl_->stage.shared.at(i).parameter, 0);
}

ConstTensorView Executable::sum_gradient(std::size_t i) {
  const std::string& parameter = impl_->stage.shared.at(i).parameter;
  impl_->sum_terms(parameter);
  return impl_->term(parameter, 0);
}

double Executable::add_squared_gradients(double sum) {
  impl_->sum_own_gradients();
  const std::span<const float> gradients = impl_->owned_gradients();
  const std::vector<ParameterExtent>& owned = impl_->layout.owned;
  for (std::size_t i = owned.size(); i-- > 0;) {
    sum += simd::sum_of_squares(gradients.data() + owned[i].offset, owned[i].count);
  }
  return sum;
}

void Executable::scale_gradients(float factor) {
  impl_->sum_own_gradients();
  for (const auto& [offset, count] : impl_->layout.owned) {
    for (float& gradient : impl_->owned_gradients().subspan(offset, count)) gradient *= factor;
  }
}

void Executable::update(std::int64_t step, double learning_rate) {
  impl_->sum_own_gradients();
  impl_->weights.begin_update(impl_->done_slot);
  std::vector<std::span<float>> state;
  for (AlignedBuffer& arena : impl_->optimizer_state) state.push_back(Impl::floats(arena));
  impl_->optimizer->update(step, learning_rate,
                           {.parameters = {reinterpret_cast<float*>(impl_->weights.newest()),
                                           impl_->layout.owned_bytes / sizeof(float)},
                            .gradients = impl_->owned_gradients(),
                            .state = state,
                            .extents = impl_->layout.owned});
}

TensorView Executable::shared_parameter(std::size_t i) {
  return impl_->state_view(impl_->stage.graph.at(impl_->stage.shared.at(i).parameter));
}

StateDict Executable::state() const {
  StateDict state;
  for (const auto& [name, view] : state_views()) {
    Tensor tensor(view.type);
    copy(view, tensor.view());
    state.emplace(name, std::move(tensor));
  }
  return state;
}

StateViews Executable::state_views() const {
  StateViews views;
  for (const auto& ids : {impl_->stage.owned_parameters(), impl_->stage.graph.buffers()}) {
    for (const ValueId id : ids) views.emplace(impl_->stage.graph.value(id).name, impl_->state_view(id));
  }
  return views;
}

StateDict Executable::optimizer_state() const {
  StateDict state;
  const std::vector<std::string> names = impl_->optimizer->state_names();
  for (std::size_t i = 0; i < impl_->optimizer_state.size(); ++i) {
    for (const ValueId id : impl_->stage.owned_parameters()) {
      const Value& value = impl_->stage.graph.value(id);
      const std::byte* const place =
          impl_->optimizer_state[i].data() + impl_->layout.parameters.at(value.name);
      Tensor tensor(value.type);
      copy(ConstTensorView{value.type, place}, tensor.view());
      state.emplace(value.name + "." + names[i], std::move(tensor));
    }
  }
  return state;
}

ConstTensorView Executable::gradient(const std::string& parameter) const {
  impl_->sum_own_gradients();
  return impl_->term(parameter, 0);
}

const MemoryUse& Executable::memory() const {
  return impl_->memory;
}

const Stage& Executable::stage() const {
  return impl_->stage;
}

void Executable::time_ops() {
  ROOKERY_CHECK(!impl_->training.empty(), "stage {} is not trained", impl_->stage.index);
  impl_->op_seconds.assign(impl_->training.front().compiled.kernels.size(), 0);
}

std::vector<OpTime> Executable::op_times() const {
  std::vector<OpTime> times;
  const TrainingGraph& training = impl_->training.front().compiled.training;
  std::string owner = impl_->stage.graph.op(0).name;
  for (std::size_t i = 0; i < impl_->op_seconds.size(); ++i) {
    const Op& op = training.graph.op(static_cast<OpId>(i));
    // A conversion of layout is nobody's: it counts with the op before it.
    const std::string forward = op.text("forward", op.name);
    if (impl_->stage.graph.has_op(forward)) owner = forward;
    times.push_back({.name = op.name,
                     .type = op.type,
                     .forward = owner,
                     .phase = training.phases[i],
                     .seconds = impl_->op_seconds[i]});
  }
  return times;
}

}  // namespace rookery
