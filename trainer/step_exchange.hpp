// The messages of the stages to each other when a step ends: gradients and new values of parameters that
// several of them use, and the norm of all gradients, by which they are clipped.
//
// Gradients go from later stages to earlier ones, values the other way afterwards, parameters in one order
// everywhere; the squares of its gradients each stage sends to all others before it waits for theirs. So no
// circle of stages can wait for each other, however little may be under way between two of them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "models/runtime/executable.hpp"
#include "models/tensor/exact_sum.hpp"
#include "trainer/averager.hpp"
#include "trainer/link.hpp"

namespace rookery {

// As torch.nn.utils.clip_grad_norm_ does: gradients whose norm is larger are scaled down to this one.
struct Clipping {
  std::optional<double> norm;
  bool is_of_all_stages = true;  // else each stage goes by the norm of its own, and waits for nobody
  // Of all stages, and after a step whose gradients were not scaled down: it may come after the update.
  bool may_be_late = false;
};

// The norm of all gradients of a step, before they are clipped.
struct GradientNorm {
  std::int64_t step = 0;
  double norm = 0;
};

// One thread. Link and Executable outlive it. Throws what Link throws, and TransportError for a number
// that no peer can have computed.
class StepExchange {
 public:
  // `averager`: of several clusters; outlives it.
  // `norm_every`: the Leaf learns the norm of every so many steps; 0: of none. Nobody waits for that: where
  // they are not clipped by it each stage sends its part to the Leaf.
  StepExchange(Executable& executable, Link& link, Clipping clipping, Averager* averager = nullptr,
               std::int64_t norm_every = 0);

  // Are the squares of this step's gradients wanted?
  bool wants_squares(std::int64_t step) const { return clipping_.norm || norm_is_due(step); }
  // After the last backward_weights() of the step: all that comes before update(), but for the norm where
  // that is late.
  void finish_gradients(std::int64_t step);
  // Is the newest step's norm late? The same on all stages.
  bool is_norm_late() const { return late_.has_value(); }
  // Waits for it: what the step's gradients are to be scaled by, where they are.
  std::optional<float> take_late_factor();
  // Between the forward passes of step `step` and of the next: hands new values of shared parameters on. With
  // a synchronous schedule that is after update().
  void spread_parameters(std::int64_t step);

  // On the Leaf: norms that are known since the last call, in the order of steps. With `all`, which waits for
  // those that are not, of all steps done.
  std::vector<GradientNorm> take_norms(bool all = false);

  // Time in receive() since this was made, and the part of it that was for stages behind this one.
  double seconds_waiting() const { return waited_for_earlier_ + waited_for_later_; }
  double seconds_waiting_for_later() const { return waited_for_later_; }

 private:
  void sum_shared_gradients(std::int64_t step);
  // The squares of a step's gradients, stage by stage.
  struct Squares {
    struct Part {
      int stage = 0;
      ExactSum::Words words{};
      std::unique_ptr<PendingTransfer> arriving;  // into them
    };
    std::int64_t step = 0;
    ExactSum own;
    std::vector<std::unique_ptr<Part>> others;
  };
  bool norm_is_due(std::int64_t step) const { return norm_every_ > 0 && (step + 1) % norm_every_ == 0; }
  void send_squares(std::int64_t step, const ExactSum& own, int to_stage);
  Squares receive_squares(std::int64_t step, const ExactSum& own);
  double sum_of(const Squares& squares);
  std::optional<float> factor_by(double squares);
  void receive(int from_stage, const MessageKey& key, TensorView into);
  double& waited_for(int stage) { return stage > stage_.index ? waited_for_later_ : waited_for_earlier_; }

  Executable& executable_;
  Link& link_;
  const Stage& stage_;  // the Executable's
  Clipping clipping_;
  Averager* averager_;
  std::int64_t norm_every_;
  std::optional<Squares> late_;
  bool was_clipped_ = true;  // the step whose norm was known last; or there was none
  // On the Leaf: of steps whose norm is to be told and was not taken yet.
  std::vector<GradientNorm> norms_;
  std::deque<Squares> telling_;
  double waited_for_earlier_ = 0;
  double waited_for_later_ = 0;
};

}  // namespace rookery
