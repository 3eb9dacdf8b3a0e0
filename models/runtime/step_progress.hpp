// Keeps what has been done of the steps of one stage: which micro-batches are in flight, what the gradients
// hold, and with that whether a call comes in its turn. Every check here is a BugError that names stage, step
// and micro-batch. Internal to this module.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "models/graph/stage.hpp"
#include "models/runtime/compile/compile_options.hpp"
#include "models/runtime/micro_batch.hpp"

namespace rookery {

// A phase is checked before it runs and noted after it: one that throws has not been done.
class StepProgress {
 public:
  // The stage outlives it.
  StepProgress(const Stage& stage, const CompileOptions& options);

  void check_forward(const MicroBatch& micro_batch) const;
  void note_forward(const MicroBatch& micro_batch);
  void check_backward_inputs(const MicroBatch& micro_batch) const;
  void note_backward_inputs(const MicroBatch& micro_batch);
  void check_backward_weights(const MicroBatch& micro_batch) const;
  void note_backward_weights(const MicroBatch& micro_batch);

  // These check that the memory of inputs, outputs and gradients that pass the stage's border may be used.
  void check_input(const MicroBatch& micro_batch) const;              // before its forward
  void check_output(const MicroBatch& micro_batch) const;             // after its forward
  void check_received_gradient(const MicroBatch& micro_batch) const;  // between forward and backward_inputs
  void check_sent_gradient(const MicroBatch& micro_batch) const;      // directly after backward_inputs

  // The same for the gradients and values of stage.shared[i].
  void check_partial_sum(std::size_t i) const;
  void check_sum(std::size_t i) const;
  void note_sum(std::size_t i);
  void check_replaceable(const char* call) const;
  // A step without micro-batches.
  void check_skip(std::int64_t step) const;
  void note_skip(std::int64_t step);

  // Once a step, after its last backward_weights() and when every shared parameter is summed: true the first
  // time, when the caller has to add up what is left.
  bool finish_gradients();
  // May gradients of several terms be read? They are totals from finish_gradients() to the next backward.
  void check_finished() const;
  bool updates_in_backward() const { return updates_in_backward_; }
  // Where parameters change in backward: before the step's.
  void check_begin_update(const MicroBatch& micro_batch) const;
  void note_begin_update(std::int64_t step);
  // May gradients be scaled, or set to 0?
  void check_changeable(const char* call) const;
  void check_update(std::int64_t step) const;
  void note_update();
  void check_update_ahead(std::int64_t step) const;
  void note_update_ahead(std::int64_t step);
  void check_take_back() const;
  void note_take_back();

  // Is this the first forward of a step?
  bool begins_step(const MicroBatch& micro_batch) const {
    return !last_forward_ || last_forward_->step != micro_batch.step;
  }

 private:
  struct Flight {
    MicroBatch micro_batch;
    bool has_input_gradients = false;  // between its two backward phases
  };

  const Flight* flight_of(const MicroBatch& micro_batch) const;
  const Flight& in_flight(const MicroBatch& micro_batch, const char* call) const;
  void check_no_weights_due(const MicroBatch& micro_batch, const char* call) const;
  void check_gradients_complete(const char* call) const;
  bool any_in_flight() const;
  void check_no_update_begun(const char* call) const;

  const Stage& stage_;
  const bool stashes_weights_, accumulates_, delays_weights_, updates_ahead_, updates_in_backward_;
  std::vector<std::optional<Flight>> slots_;
  std::deque<MicroBatch> weights_due_;        // whose backward_weights() have to come, in this order
  std::optional<MicroBatch> last_forward_;    // in training
  std::optional<MicroBatch> last_inference_;  // whose outputs are there
  std::optional<MicroBatch> last_backward_;   // the newest of which backward_inputs() ran
  std::optional<MicroBatch> to_send_;         // whose gradients of inputs are there
  std::optional<std::int64_t> summed_step_;   // whose gradients wait for its update
  std::vector<bool> shared_summed_;           // by stage.shared
  bool is_finished_ = false;                  // every gradient is a total
  std::optional<std::int64_t> update_begun_;  // of this step
  // The update that may be taken back, and what was last_forward_ when it was made.
  struct Ahead {
    std::int64_t step = 0;
    std::optional<MicroBatch> last_forward;
  };
  std::optional<Ahead> ahead_;
};

}  // namespace rookery
