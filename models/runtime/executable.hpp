// A stage compiled for given micro-batch sizes on this machine: planned memory, chosen kernels,
// nothing allocated after construction. The memory it takes is known before it is built.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/graph/initialize.hpp"
#include "models/graph/stage.hpp"
#include "models/kernels/kernel.hpp"
#include "models/runtime/optimizer.hpp"

namespace rookery {

enum class Mode : std::uint8_t { kTraining, kInference };

struct CompileOptions {
  std::vector<std::int64_t> training_sizes;   // every micro-batch size that training will bring
  std::vector<std::int64_t> inference_sizes;  // and validation
  int slots = 1;  // training micro-batches in flight: whose forward ran and whose backward has not
  // Updates may come between a micro-batch's forward and its backward, which uses the weights of the forward
  // all the same: every slot has weights of its own. A step then has one micro-batch.
  bool stashes_weights = false;
  bool accumulates = false;  // a step may have several micro-batches
  // Runs forward ops again before their gradients where that saves memory; the same bits.
  bool recompute = false;
  KernelChoice kernels;
  std::uint64_t seed = 0;
  OptimizerSettings optimizer;  // used when training_sizes is not empty
};

// Bytes, by what they are for.
struct MemoryUse {
  std::int64_t parameters = 0;  // and buffers and constants
  std::int64_t versions = 0;    // of parameters, stashed for the micro-batches in flight
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t stash = 0;      // activations of the micro-batches in flight
  std::int64_t workspace = 0;  // the rest of the working memory
  std::int64_t program = 0;    // the compiled ops themselves: names, kernels, generated code; an estimate
  std::int64_t total() const {
    return parameters + versions + gradients + optimizer + stash + workspace + program;
  }
};

// What an Executable of these would take, without building it.
MemoryUse memory_use(const Stage& stage, const CompileOptions& options);
// With 1, 2, ..., options.slots slots. Hardly dearer than one, unless something is recomputed.
std::vector<MemoryUse> memory_by_slots(const Stage& stage, CompileOptions options);

// One micro-batch on its way through a stage.
struct MicroBatch {
  Mode mode = Mode::kTraining;
  std::int64_t step = 0;  // update counter, from 0
  int index = 0;          // within the step
  std::int64_t size = 0;  // samples: one of the compiled sizes
  int slot = 0;           // < slots; 0 in inference
  float loss_weight = 1;  // share in the mean loss of the batch
};

// One op of the compiled training step. Passes fuse ops, add conversions of layout, and every gradient op
// belongs to one that it is the gradient of.
struct OpTime {
  std::string name;
  std::string type;
  std::string forward;  // the op of the stage's graph that it belongs to
  Phase phase = Phase::kForward;
  double seconds = 0;
};

// Used by one thread at a time. Within a step: forward of a micro-batch; later its backward_inputs,
// directly followed by its backward_weights; micro-batches in rising order in each. Then the step ends:
// sum_gradient() of every shared parameter, clipping, update(), new values of borrowed parameters. Where
// weights are stashed, micro-batches of later steps may be in flight then; all use one slot after the other,
// and inference has to wait until none is.
class Executable {
 public:
  // ConfigError when the stage cannot be compiled; state is that of check_state(). Tensors of a state that
  // is moved here are freed one by one as they are copied, before other memory is taken: no more than the
  // planned total is taken at any time.
  Executable(const Stage& stage, const CompileOptions& options, const StateDict& state);
  Executable(const Stage& stage, const CompileOptions& options, StateDict&& state);
  ~Executable();
  Executable(Executable&&) noexcept;

  // Memory of stage.inputs[i], to be filled before forward().
  TensorView input(std::size_t i, const MicroBatch& micro_batch);
  // Stage.outputs[i] after forward().
  ConstTensorView output(std::size_t i, const MicroBatch& micro_batch) const;
  // Where the gradient that comes from stage.outputs[i].gradient_from (or the partial one of
  // stage.inputs[i].gradient_from) is put before backward_inputs().
  TensorView output_gradient(std::size_t i, const MicroBatch& micro_batch);
  TensorView partial_gradient(std::size_t i, const MicroBatch& micro_batch);
  // The gradient for stage.inputs[i].gradient_to after backward_inputs().
  ConstTensorView input_gradient(std::size_t i, const MicroBatch& micro_batch) const;

  void forward(const MicroBatch& micro_batch);
  void backward_inputs(const MicroBatch& micro_batch);
  // Adds to the gradients of the step; the step's first micro-batch starts them.
  void backward_weights(const MicroBatch& micro_batch);

  // For stage.shared[i]: where the partial gradient that comes from gradient_from is put; then
  // sum_gradient() adds this stage's share, and the result is for gradient_to, or for update() where
  // this stage owns the parameter.
  TensorView partial_sum(std::size_t i);
  ConstTensorView sum_gradient(std::size_t i);
  // Adds to `sum` the squares of the gradients of every parameter that this stage owns, the parameters
  // from the last to the first in the order of their first use.
  double add_squared_gradients(double sum);
  // Multiplies these gradients.
  void scale_gradients(float factor);
  // Of the parameters that this stage owns.
  void update(std::int64_t step, double learning_rate);
  // The newest value of stage.shared[i]: to be sent after update(), or to be replaced where it is borrowed.
  TensorView shared_parameter(std::size_t i);

  // Buffers, and the parameters that this stage owns, by global name: copies, and windows onto them for as
  // long as they are not trained.
  StateDict state() const;
  StateViews state_views() const;
  // Optimizer state as "<parameter>.<state name>".
  StateDict optimizer_state() const;
  // The gradient of one parameter, as far as this stage knows it, after the step's last
  // backward_weights() and before the next step.
  ConstTensorView gradient(const std::string& parameter) const;
  const MemoryUse& memory() const;
  const Stage& stage() const;

  // From here on every op of training micro-batches is timed, which takes some 50 ns each; then what the ops
  // of those of the first training size took since, in all.
  void time_ops();
  std::vector<OpTime> op_times() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rookery
