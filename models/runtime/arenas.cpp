#include "models/runtime/arenas.hpp"

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

Device& memory_of(const Processor& processor) {
  return processor.device() == nullptr ? host_device() : *processor.device();
}

// Not for the host to read: its memory may be a device's.
std::span<float> floats(AlignedBuffer& buffer) {
  return {reinterpret_cast<float*>(buffer.data()), buffer.size() / sizeof(float)};
}

}  // namespace

Arenas::Arenas(const Stage& stage, const CompileOptions& options, const CompiledVariants& variants,
               const StateDict& initial, StateDict* consumed)
    : stage_(stage),
      processor_(*options.processor),
      device_(processor_.device()),
      layout_(variants.parameter_layout(stage)),
      buffer_layout_(lay_out(stage.graph, stage.graph.buffers())),
      constant_layout_(lay_out(stage.graph, stage.graph.constants())),
      weights_(layout_.parameter_bytes, memory_of(processor_)),
      buffers_(AlignedBuffer::unwritten(buffer_layout_.bytes, memory_of(processor_))),
      constants_(constant_layout_.bytes, memory_of(processor_)) {
  with_context(fmt::format("stage {}", stage.index), [&] { check_state(stage.graph, initial); });
  for (const auto& ids : {stage.graph.parameters(), stage.graph.buffers()}) {
    for (const ValueId id : ids) {
      const std::string& name = stage.graph.value(id).name;
      const TensorView view = state(id);
      const std::size_t bytes = view.type.bytes();
      copy(initial.at(name).view(), view);
      memory_of(processor_).fill(view.data + bytes, std::byte{0}, align_up(bytes) - bytes);
      if (consumed != nullptr) consumed->erase(name);
    }
  }
  for (const ValueId id : stage.graph.constants()) copy(stage.graph.value(id).data->view(), state(id));
  if (!variants.training.empty()) {
    weights_.stash(options.versions(), options.slots);
    gradients_ = AlignedBuffer(layout_.gradient_bytes, memory_of(processor_));
    const std::size_t states = make_optimizer(options.optimizer)->state_names().size();
    for (std::size_t i = 0; i < states; ++i)
      optimizer_state_.emplace_back(layout_.owned_bytes, memory_of(processor_));
    for (AlignedBuffer& arena : optimizer_state_)
      optimizer_at_end_.push_back(floats(arena).first(layout_.at_end_bytes / sizeof(float)));
    if (options.updates_ahead)
      kept_ = AlignedBuffer(variants.kept_bytes(stage, options), memory_of(processor_));
  }
  working_ = AlignedBuffer(variants.working_bytes(options), memory_of(processor_));
}

TensorView Arenas::state(ValueId id, std::optional<std::size_t> version) {
  const Value& value = stage_.graph.value(id);
  if (value.kind == ValueKind::kParameter) {
    std::byte* const weights = weights_.version(version.value_or(weights_.newest()));
    return {value.type, weights + layout_.parameters.at(value.name), device_};
  }
  if (value.kind == ValueKind::kBuffer)
    return {value.type, buffers_.data() + buffer_layout_.offsets.at(id), device_};
  return {value.type, constants_.data() + constant_layout_.offsets.at(id), device_};
}

TensorView Arenas::gradient_term(const std::string& parameter, std::size_t index) {
  ROOKERY_CHECK(!layout_.in_backward.contains(parameter), "the gradient of '{}' has no place of its own",
                parameter);
  return {stage_.graph.value(stage_.graph.at(parameter)).type,
          gradient(layout_.gradient_terms.at(parameter).at(index)), device_};
}

TensorView Arenas::optimizer_state(std::size_t i, ValueId parameter) {
  const Value& value = stage_.graph.value(parameter);
  return {value.type, optimizer_state_.at(i).data() + layout_.parameters.at(value.name), device_};
}

void Arenas::clear_gradients() {
  memory_of(processor_).fill(gradients_.data(), std::byte{0}, gradients_.size());
}

void Arenas::sum_gradient(const std::string& parameter) {
  const std::vector<std::size_t>& terms = layout_.gradient_terms.at(parameter);
  const auto count = static_cast<std::size_t>(gradient_term(parameter, 0).elements());
  const auto floats_at = [&](std::size_t offset) { return reinterpret_cast<float*>(gradient(offset)); };
  for (std::size_t i = 1; i < terms.size(); ++i)
    processor_.arithmetic().add(floats_at(terms[0]), floats_at(terms[i]), count);
}

std::span<float> Arenas::gradients_at_end() {
  return floats(gradients_).first(layout_.at_end_bytes / sizeof(float));
}

ParameterInBackward Arenas::in_backward(const std::string& parameter, TensorView gradient) {
  const ParameterExtent place = layout_.in_backward.at(parameter);
  ParameterInBackward made{
      .place = place,
      .gradient = {reinterpret_cast<const float*>(gradient.data), place.count},
      .state = {},
  };
  for (AlignedBuffer& arena : optimizer_state_)
    made.state.push_back(floats(arena).subspan(place.offset, place.count));
  return made;
}

std::span<float> Arenas::owned(std::size_t version) {
  return {reinterpret_cast<float*>(weights_.version(version)), layout_.owned_bytes / sizeof(float)};
}

void Arenas::begin_update(std::optional<std::size_t> slot) {
  weights_.begin_update(slot);
  predicted_ = expected_;
}

void Arenas::change(const ParameterInBackward& parameter, const Update& update) {
  const auto [offset, count] = parameter.place;
  const ParameterExtent all{.offset = 0, .count = count};
  update({.parameters = owned(weights_.newest()).subspan(offset, count),
          .gradients = parameter.gradient,
          .state = parameter.state,
          .extents = {&all, 1},
          .kept = kept_change(offset)});
}

void Arenas::change_at_end(const Update& update) {
  update({.parameters = owned(weights_.newest()).first(layout_.at_end_bytes / sizeof(float)),
          .gradients = gradients_at_end(),
          .state = optimizer_at_end_,
          .extents = layout_.at_end,
          .kept = kept_change(0)});
}

KeptChange Arenas::kept_change(std::size_t offset) {
  if (!weights_.kept()) return {};
  return {.to = owned(*weights_.kept()).data() + offset,
          .factor = predicted_.value_or(1),
          .predicts = predicted_.has_value()};
}

void Arenas::expect_prediction(std::optional<double> changes) {
  expected_.reset();
  if (changes) expected_ = static_cast<float>(*changes);
}

void Arenas::predict(double changes, bool at_once) {
  if (layout_.owned_bytes == 0) return;
  weights_.begin_with_kept(at_once);
  ROOKERY_CHECK(!predicted_ || *predicted_ == static_cast<float>(changes),
                "stage {}: an update predicted {} more, not {}", stage_.index, *predicted_, changes);
  if (predicted_) return;
  const std::span<float> next = owned(weights_.next_step());
  processor_.arithmetic().scale_and_add(next.data(), static_cast<float>(changes),
                                        owned(weights_.newest()).data(), next.size());
}

std::vector<std::span<std::byte>> Arenas::changing() {
  std::vector<std::span<std::byte>> all{{weights_.version(weights_.newest()), weights_.bytes()}};
  for (const ValueId id : stage_.graph.buffers()) {
    const TensorView buffer = state(id);
    if (!stage_.graph.value(id).fixed) all.emplace_back(buffer.data, align_up(buffer.type.bytes()));
  }
  for (AlignedBuffer& arena : optimizer_state_) all.emplace_back(arena.data(), arena.size());
  return all;
}

void Arenas::keep_state() {
  std::byte* kept = kept_.data();
  for (const std::span<std::byte> part : changing()) {
    if (!part.empty()) memory_of(processor_).copy(part.data(), kept, part.size());
    kept += part.size();
  }
}

void Arenas::restore_state() {
  const std::byte* kept = kept_.data();
  for (const std::span<std::byte> part : changing()) {
    if (!part.empty()) memory_of(processor_).copy(kept, part.data(), part.size());
    kept += part.size();
  }
}

}  // namespace rookery
