#include "models/runtime/executable.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "models/base/check.hpp"
#include "models/runtime/arenas.hpp"
#include "models/runtime/bound_program.hpp"
#include "models/runtime/step_progress.hpp"

namespace rookery {
namespace {

constexpr std::string_view kOptimizerPrefix = "optimizer/";

}  // namespace

struct Executable::Impl {
  // `consumed`: the same state where it is to be freed on the way.
  Impl(const Stage& the_stage, const CompileOptions& options, const StateDict& initial, StateDict* consumed)
      : Impl(the_stage, options, initial, consumed, compile_variants(the_stage, options)) {}

  Impl(const Stage& the_stage, const CompileOptions& options, const StateDict& initial, StateDict* consumed,
       CompiledVariants variants)
      : stage(the_stage),
        memory(variants.memory(stage, options)),
        optimizer(make_optimizer(options.optimizer)),
        arenas(stage, options, variants, initial, consumed),
        training(stage, std::move(variants.training), options.slots, options.accumulates(), arenas),
        inference(stage, std::move(variants.inference), 1, false, arenas),
        progress(stage, options) {
    for (const auto& [name, terms] : arenas.layout().gradient_terms) {
      const bool is_shared =
          std::ranges::find(stage.shared, name, &SharedParameter::parameter) != stage.shared.end();
      if (!is_shared && terms.size() > 1) summed_here.push_back(name);
    }
  }

  BoundProgram& program(const MicroBatch& micro_batch) {
    BoundProgram& program = micro_batch.mode == Mode::kTraining ? training : inference;
    program.check(micro_batch);
    return program;
  }

  // Gives a forward its version of the weights.
  void take_weights(BoundProgram& program, const MicroBatch& micro_batch) {
    WeightVersions& weights = arenas.weights();
    const auto slot = static_cast<std::size_t>(micro_batch.slot);
    const bool is_training = micro_batch.mode == Mode::kTraining;
    if (is_training) weights.take(slot, progress.begins_step(micro_batch));
    program.use_weights(slot, is_training ? weights.of_slot(slot) : weights.newest());
  }

  void finish_gradients() {
    if (!progress.finish_gradients()) return;
    for (const std::string& parameter : summed_here) arenas.sum_gradient(parameter);
  }

  // A step's update, where parameters change in backward.
  struct UpdateBegun {
    double learning_rate = 0;
    std::optional<ExactSum> squares;  // where they are wanted: of the gradients that were there
  };

  void update(std::int64_t step, double learning_rate, const ParameterArena& arena) const {
    optimizer->update(step - optimizer_from, learning_rate, arithmetic(), arena);
  }

  BoundProgram::Update update_in_backward(std::int64_t step) {
    if (!begun) return nullptr;
    return [this, step](const ParameterInBackward& parameter) {
      const std::span<const float> gradient = parameter.gradient;
      if (begun->squares) begun->squares->add(arithmetic().sum_of_squares(gradient.data(), gradient.size()));
      arenas.change(parameter,
                    [&](const ParameterArena& arena) { update(step, begun->learning_rate, arena); });
    };
  }

  const Arithmetic& arithmetic() const { return arenas.processor().arithmetic(); }

  const Stage stage;
  const MemoryUse memory;
  const std::unique_ptr<Optimizer> optimizer;
  std::int64_t optimizer_from = 0;  // see begin_optimizer()
  Arenas arenas;
  BoundProgram training, inference;
  StepProgress progress;
  std::optional<UpdateBegun> begun;
  std::vector<std::string> summed_here;  // parameters used here alone whose gradient has several terms
};

std::string optimizer_key(const std::string& state_name, const std::string& parameter) {
  return std::string(kOptimizerPrefix).append(state_name).append("/").append(parameter);
}

bool is_optimizer_key(const std::string& name) {
  return name.starts_with(kOptimizerPrefix);
}

Executable::Executable(const Stage& stage, const CompileOptions& options, const StateDict& state)
    : impl_(std::make_unique<Impl>(stage, options, state, nullptr)) {}
Executable::Executable(const Stage& stage, const CompileOptions& options, StateDict&& state)
    : impl_(std::make_unique<Impl>(stage, options, state, &state)) {}
Executable::~Executable() = default;
Executable::Executable(Executable&&) noexcept = default;

TensorView Executable::input(std::size_t i, const MicroBatch& micro_batch) {
  const BoundProgram& program = impl_->program(micro_batch);
  impl_->progress.check_input(micro_batch);
  return program.view(BoundProgram::Port::kInput, i, micro_batch);
}

ConstTensorView Executable::output(std::size_t i, const MicroBatch& micro_batch) const {
  const BoundProgram& program = impl_->program(micro_batch);
  impl_->progress.check_output(micro_batch);
  return program.view(BoundProgram::Port::kOutput, i, micro_batch);
}

TensorView Executable::output_gradient(std::size_t i, const MicroBatch& micro_batch) {
  const BoundProgram& program = impl_->program(micro_batch);
  impl_->progress.check_received_gradient(micro_batch);
  return program.view(BoundProgram::Port::kOutputGradient, i, micro_batch);
}

TensorView Executable::partial_gradient(std::size_t i, const MicroBatch& micro_batch) {
  const BoundProgram& program = impl_->program(micro_batch);
  impl_->progress.check_received_gradient(micro_batch);
  return program.view(BoundProgram::Port::kPartialGradient, i, micro_batch);
}

ConstTensorView Executable::input_gradient(std::size_t i, const MicroBatch& micro_batch) const {
  const BoundProgram& program = impl_->program(micro_batch);
  impl_->progress.check_sent_gradient(micro_batch);
  return program.view(BoundProgram::Port::kInputGradient, i, micro_batch);
}

void Executable::forward(const MicroBatch& micro_batch) {
  BoundProgram& program = impl_->program(micro_batch);
  impl_->progress.check_forward(micro_batch);
  impl_->take_weights(program, micro_batch);
  program.run(Phase::kForward, micro_batch);
  impl_->progress.note_forward(micro_batch);
}

void Executable::backward_inputs(const MicroBatch& micro_batch, const GradientDone& done) {
  BoundProgram& program = impl_->program(micro_batch);
  impl_->progress.check_backward_inputs(micro_batch);
  program.run(Phase::kBackwardInputs, micro_batch, done, impl_->update_in_backward(micro_batch.step));
  impl_->progress.note_backward_inputs(micro_batch);
}

void Executable::backward_weights(const MicroBatch& micro_batch, const GradientDone& done) {
  BoundProgram& program = impl_->program(micro_batch);
  impl_->progress.check_backward_weights(micro_batch);
  program.run(Phase::kBackwardWeights, micro_batch, done, impl_->update_in_backward(micro_batch.step));
  impl_->progress.note_backward_weights(micro_batch);
  impl_->arenas.weights().release(static_cast<std::size_t>(micro_batch.slot));
}

TensorView Executable::partial_sum(std::size_t i) {
  impl_->progress.check_partial_sum(i);
  return impl_->arenas.gradient_term(impl_->stage.shared[i].parameter, 0);
}

ConstTensorView Executable::sum_gradient(std::size_t i) {
  impl_->progress.check_sum(i);
  const std::string& parameter = impl_->stage.shared[i].parameter;
  impl_->progress.note_sum(i);
  if (impl_->arenas.layout().gradient_terms.at(parameter).empty()) return {};
  impl_->arenas.sum_gradient(parameter);
  return impl_->arenas.gradient_term(parameter, 0);
}

void Executable::finish_gradients() {
  impl_->finish_gradients();
}

ExactSum Executable::squared_gradients() {
  impl_->finish_gradients();
  ROOKERY_CHECK(!impl_->begun || impl_->begun->squares,
                "stage {}: squares that begin_update() did not ask for", impl_->stage.index);
  ExactSum sum = impl_->begun ? *impl_->begun->squares : ExactSum();
  for (const auto& [offset, count] : impl_->arenas.layout().at_end)
    sum.add(impl_->arithmetic().sum_of_squares(impl_->arenas.gradients_at_end().data() + offset, count));
  return sum;
}

void Executable::scale_gradients(float factor) {
  impl_->progress.check_changeable("scale_gradients()");
  impl_->finish_gradients();
  for (const auto& [offset, count] : impl_->arenas.layout().at_end) {
    impl_->arithmetic().scale(impl_->arenas.gradients_at_end().data() + offset, factor, count);
  }
}

void Executable::begin_optimizer(std::int64_t step) {
  impl_->optimizer_from = step;
}

bool Executable::updates_in_backward() const {
  return impl_->progress.updates_in_backward();
}

void Executable::begin_update(const MicroBatch& micro_batch, double learning_rate, bool sums_squares) {
  impl_->progress.check_begin_update(micro_batch);
  impl_->begun = Impl::UpdateBegun{.learning_rate = learning_rate};
  if (sums_squares) impl_->begun->squares.emplace();
  impl_->arenas.begin_update(static_cast<std::size_t>(micro_batch.slot));
  impl_->progress.note_begin_update(micro_batch.step);
}

void Executable::update(std::int64_t step, double learning_rate) {
  impl_->progress.check_update(step);
  ROOKERY_CHECK(!impl_->begun || impl_->begun->learning_rate == learning_rate,
                "stage {}: update() of step {} at another rate than begin_update()", impl_->stage.index,
                step);
  impl_->finish_gradients();
  if (!impl_->begun) impl_->arenas.begin_update();
  impl_->arenas.change_at_end(
      [&](const ParameterArena& arena) { impl_->update(step, learning_rate, arena); });
  impl_->begun.reset();
  impl_->progress.note_update();
}

void Executable::update_ahead(std::int64_t step, double learning_rate) {
  impl_->progress.check_update_ahead(step);
  impl_->arenas.keep_state();
  update(step, learning_rate);
  impl_->progress.note_update_ahead(step);
}

void Executable::take_back_update() {
  impl_->progress.check_take_back();
  impl_->arenas.restore_state();
  impl_->progress.note_take_back();
}

void Executable::expect_prediction(std::optional<double> updates) {
  impl_->arenas.expect_prediction(updates);
}

void Executable::predict_weights(double updates, bool at_once) {
  impl_->progress.check_replaceable("predict_weights()");
  impl_->arenas.predict(updates, at_once);
}

TensorView Executable::shared_parameter(std::size_t i) {
  impl_->progress.check_replaceable("shared_parameter()");
  WeightVersions& weights = impl_->arenas.weights();
  const bool is_borrowed = impl_->stage.shared.at(i).from != kNoStage;
  if (is_borrowed && weights.next_step() == weights.newest()) weights.make_writable();
  return impl_->arenas.state(impl_->stage.graph.at(impl_->stage.shared.at(i).parameter), weights.next_step());
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
    for (const ValueId id : ids) views.emplace(impl_->stage.graph.value(id).name, impl_->arenas.state(id));
  }
  return views;
}

std::map<std::string, TensorView> Executable::training_state() {
  impl_->progress.check_replaceable("training_state()");
  const Graph& graph = impl_->stage.graph;
  std::map<std::string, TensorView> state;
  for (const auto& ids : {graph.parameters(), graph.buffers()})
    for (const ValueId id : ids) state.emplace(graph.value(id).name, impl_->arenas.state(id));
  const std::vector<std::string> names = impl_->optimizer->state_names();
  for (std::size_t i = 0; i < impl_->arenas.optimizer_states(); ++i) {
    for (const ValueId id : impl_->stage.owned_parameters())
      state.emplace(optimizer_key(names[i], graph.value(id).name), impl_->arenas.optimizer_state(i, id));
  }
  return state;
}

TensorView Executable::gradient_place(const std::string& parameter) {
  return impl_->arenas.gradient_term(parameter, 0);
}

void Executable::skip_step(std::int64_t step) {
  impl_->progress.check_changeable("skip_step()");
  impl_->progress.check_skip(step);
  impl_->arenas.clear_gradients();
  impl_->progress.note_skip(step);
}

ConstTensorView Executable::gradient(const std::string& parameter) const {
  impl_->progress.check_finished();
  return impl_->arenas.gradient_term(parameter, 0);
}

const MemoryUse& Executable::memory() const {
  return impl_->memory;
}

const Stage& Executable::stage() const {
  return impl_->stage;
}

void Executable::time_ops() {
  impl_->training.time_ops();
}

std::vector<OpTime> Executable::op_times() const {
  return impl_->training.op_times();
}

}  // namespace rookery
