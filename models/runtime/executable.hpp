// A stage compiled for given micro-batch sizes on one device: planned memory, chosen kernels, nothing
// allocated after construction. Views that it hands out are of that device's memory: copy(), HostTensor and
// write_from_host() (models/tensor/tensor.hpp) take its numbers to the host and back. The memory it takes is
// known before it is built (compile_options.hpp).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/graph/stage.hpp"
#include "models/graph/state/state_dict.hpp"
#include "models/runtime/compile/compile_options.hpp"
#include "models/runtime/micro_batch.hpp"
#include "models/tensor/exact_sum.hpp"

namespace rookery {

// One op of the compiled training step. Passes fuse ops, add conversions of layout, and every gradient op
// belongs to one that it is the gradient of.
struct OpTime {
  std::string name;
  std::string type;
  std::string forward;  // the op of the stage's graph that it belongs to
  Phase phase = Phase::kForward;
  double seconds = 0;
};

// "optimizer/exp_avg/fc1.weight"; no parameter and no buffer may be called so.
std::string optimizer_key(const std::string& state_name, const std::string& parameter);
bool is_optimizer_key(const std::string& name);

// Used by one thread at a time. Calls come in an order that is checked (step_progress.hpp): one that is out
// of turn is a BugError that says which.
//
// A micro-batch in training: input(), forward(), output(); then, perhaps after other forwards,
// output_gradient() and partial_gradient(), backward_inputs(), input_gradient(), and directly after that its
// backward_weights(); or, where these are delayed, at any time later, after those of the micro-batches
// before. It is in flight, and has its slot, from its forward to its backward_weights(). Micro-batches come
// in rising order of step and index in each; in backward the indices of a step rise by one. Index 0 starts
// the gradients; where a step begins with a later one it adds to what is there.
//
// The end of a step, when none of its micro-batches is in flight: for every shared parameter partial_sum(),
// where one arrives, and sum_gradient(); squared_gradients() and scale_gradients(), where gradients are
// clipped; update(); new values of borrowed parameters. No micro-batch of the next step comes before, unless
// weights are stashed: then micro-batches of later steps may be in flight at any time. An update_ahead() may
// be taken back until the next step's first backward_inputs(), and then be made again. Where parameters
// change in backward begin_update() comes before it, and nobody sees or changes their gradients.
//
// Inference shares its memory with training: it runs when no micro-batch is in flight.
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
  // Stage.outputs[i] after forward(), to be read before anything else runs.
  ConstTensorView output(std::size_t i, const MicroBatch& micro_batch) const;
  // Where the gradient that comes from stage.outputs[i].gradient_from (or the partial one of
  // stage.inputs[i].gradient_from) is put before backward_inputs(), when nothing else runs in between.
  TensorView output_gradient(std::size_t i, const MicroBatch& micro_batch);
  TensorView partial_gradient(std::size_t i, const MicroBatch& micro_batch);
  // The gradient for stage.inputs[i].gradient_to after backward_inputs(), before anything else runs.
  ConstTensorView input_gradient(std::size_t i, const MicroBatch& micro_batch) const;

  void forward(const MicroBatch& micro_batch);
  // Both together add to the gradients of the step. `done` is called between ops, as soon as a gradient has
  // all that this micro-batch adds to it; not for parameters that other stages share or that several ops use.
  using GradientDone = std::function<void(const std::string& parameter)>;
  void backward_inputs(const MicroBatch& micro_batch, const GradientDone& done = nullptr);
  void backward_weights(const MicroBatch& micro_batch, const GradientDone& done = nullptr);

  // For stage.shared[i]: where the partial gradient that comes from gradient_from is put; then
  // sum_gradient() adds this stage's share, once a step, and the result is for gradient_to, or for update()
  // where this stage owns the parameter; nothing where no loss depends on the stage's use of it.
  TensorView partial_sum(std::size_t i);
  ConstTensorView sum_gradient(std::size_t i);
  bool updates_in_backward() const;
  // Where CompileOptions::updates_in_backward says so, before the backward of a step's micro-batch:
  // parameters that change in it do so at this learning rate, which is to be that of update(). Until update()
  // neither forward() nor what reads or replaces parameters may come. `sums_squares`: squared_gradients()
  // follows.
  void begin_update(const MicroBatch& micro_batch, double learning_rate, bool sums_squares = false);
  // Makes totals of the gradients of this step, of which no more come. What is below does so itself; it is
  // for those who read gradient().
  void finish_gradients();
  // The squares of the gradients of all parameters that this stage owns.
  ExactSum squared_gradients();
  // Multiplies these gradients.
  void scale_gradients(float factor);
  // Where the total gradient of a parameter is that this stage owns: to be read or replaced as soon as
  // backward of the step's last micro-batch says that it is done, or from finish_gradients() on, until
  // update().
  TensorView gradient_place(const std::string& parameter);
  // Begins and ends a step of no micro-batches, when none is in flight: its gradients are 0.
  void skip_step(std::int64_t step);
  // The optimizer's state is that of the beginning when so many updates are done, 0 unless told: what depends
  // on the number of an update, as Adam's corrections do, counts from there.
  void begin_optimizer(std::int64_t step);
  // Changes the parameters that this stage owns. `step` is that of the micro-batches.
  void update(std::int64_t step, double learning_rate);
  // The same where CompileOptions::updates_ahead says so, keeping what it and later forwards change.
  void update_ahead(std::int64_t step, double learning_rate);
  // Puts that back: the step stands before its update again, to the bit, and the micro-batches of the next
  // one whose forwards have run are in flight no more.
  void take_back_update();
  // Where weights are stashed: if predict_weights() follows an update from here on, it is for so many
  // updates, and nobody else changes weights in between. So the update can make them, while what it changes
  // is at hand.
  void expect_prediction(std::optional<double> updates);
  // Where weights are stashed, once after an update: until the next one, steps that begin use the weights as
  // they will be after so many more updates like the last (SpecTrain, arXiv 1809.02839), and where `at_once`
  // all forwards do, also those of a step that has begun. Only of those that the stage owns: every borrowed
  // value is to be replaced before such a step.
  void predict_weights(double updates, bool at_once = false);
  // The value of stage.shared[i] that the next step uses, the newest unless one is predicted: to be sent
  // after update(), or to be replaced where it is borrowed.
  TensorView shared_parameter(std::size_t i);

  // Buffers, and the parameters that this stage owns, by global name: copies, and windows onto them for as
  // long as they are not trained.
  StateDict state() const;
  StateViews state_views() const;
  // All that training changes: buffers, and parameters, those too that the stage borrows, by global name; and
  // by optimizer_key() the optimizer's state of those that it owns. Training goes on from these in any cut.
  // To be read or replaced while no micro-batch is in flight and no update is due; where weights are stashed
  // also directly after an update.
  std::map<std::string, TensorView> training_state();
  // The gradient of one parameter, as far as this stage knows it, from finish_gradients() to the next
  // backward.
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
