// The memory of one stage: everything that its compiled ops read and write, allocated once, on the device
// that the stage runs on. Internal to this module.
//
//   weights          the parameters, in as many versions as are stashed (weight_versions.hpp)
//   buffers          running statistics and what is fixed
//   constants
//   gradients        the terms of the parameters' gradients (parameter_layout.hpp)
//   optimizer state  one arena for each of the optimizer's state names, of the parameters that the stage owns
//   kept             where updates may be taken back, a copy of what they and forwards change
//   working          the stashes of all slots, then the memory that all slots share (memory_plan.hpp)
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/graph/state/state_dict.hpp"
#include "models/runtime/compile/compiled_variants.hpp"
#include "models/runtime/compile/parameter_layout.hpp"
#include "models/runtime/weight_versions.hpp"

namespace rookery {

// A parameter that changes in backward.
struct ParameterInBackward {
  ParameterExtent place;  // among those that the stage owns
  std::span<const float> gradient;
  std::vector<std::span<float>> state;
};

class Arenas {
 public:
  // The stage outlives it. `initial` is copied; a tensor of `consumed`, which is the same state or nullptr,
  // is freed as soon as it is copied and before other memory is taken. DataError where the state is not the
  // stage's.
  Arenas(const Stage& stage, const CompileOptions& options, const CompiledVariants& variants,
         const StateDict& initial, StateDict* consumed);

  const ParameterLayout& layout() const { return layout_; }

  // A parameter, buffer or constant of the stage: the newest, or a parameter in a version of its own.
  TensorView state(ValueId id, std::optional<std::size_t> version = std::nullopt);
  // One term of a parameter's gradient. The first one's place is also the total's.
  TensorView gradient_term(const std::string& parameter, std::size_t index);
  std::byte* gradient(std::size_t offset) { return gradients_.data() + offset; }
  // A parameter's state in the optimizer's arena number `i`.
  TensorView optimizer_state(std::size_t i, ValueId parameter);
  std::size_t optimizer_states() const { return optimizer_state_.size(); }
  std::byte* working(std::size_t offset) { return working_.data() + offset; }

  // All terms of all gradients are 0.
  void clear_gradients();
  // Adds the terms of a parameter's gradient up to the total, in their order.
  void sum_gradient(const std::string& parameter);
  std::span<float> gradients_at_end();
  ParameterInBackward in_backward(const std::string& parameter, TensorView gradient);

  // An update of the newest parameters that this stage owns, as `update` does it with their total gradients
  // and their state: begin_update(), with the slot of the backward that makes it, if one does; change(), once
  // for each that changes in backward; then change_at_end(), for all others. Where weights are stashed it
  // leaves what predict() needs.
  using Update = std::function<void(const ParameterArena&)>;
  void begin_update(std::optional<std::size_t> slot = std::nullopt);
  void change(const ParameterInBackward& parameter, const Update& update);
  void change_at_end(const Update& update);
  // Updates that begin from here on make the predictions for which predict() will be called with this number,
  // where there is one: nobody else changes weights in between.
  void expect_prediction(std::optional<double> changes);
  // Steps that begin before the next one, or where `at_once` all forwards until then, have the weights as
  // they are after so many more such changes.
  void predict(double changes, bool at_once);

  // Where CompileOptions::updates_ahead says so: copies the parameters and buffers that training changes, and
  // the optimizer's state; and puts them back.
  void keep_state();
  void restore_state();

  WeightVersions& weights() { return weights_; }
  const Processor& processor() const { return processor_; }

 private:
  std::span<float> owned(std::size_t version);
  // Of the owned parameters from this one on, where an update leaves it.
  KeptChange kept_change(std::size_t offset);
  // All memory that training changes, in the order in which it is kept.
  std::vector<std::span<std::byte>> changing();

  const Stage& stage_;
  const Processor& processor_;
  Device* const device_;  // the processor's; nullptr: the host
  const ParameterLayout layout_;
  const ArenaLayout buffer_layout_, constant_layout_;
  WeightVersions weights_;
  AlignedBuffer buffers_, constants_, gradients_;
  std::vector<AlignedBuffer> optimizer_state_;
  std::vector<std::span<float>> optimizer_at_end_;  // of it, what changes at the end of a step
  std::optional<float> expected_;                   // of predict()
  std::optional<float> predicted_;                  // by the last update; else it has left what it changed
  AlignedBuffer kept_;
  AlignedBuffer working_;
};

}  // namespace rookery
