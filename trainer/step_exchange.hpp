// The messages of the stages to each other when a step ends: gradients and new values of parameters that
// several of them use, and the norm of all gradients, by which they are clipped.
//
// Gradients and sums go from later stages to earlier ones, values and the norm the other way
// afterwards, parameters in one order everywhere. So no circle of stages can wait for each other,
// however little may be under way between two of them.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "models/runtime/executable.hpp"
#include "trainer/averager.hpp"
#include "trainer/link.hpp"

namespace rookery {

// As torch.nn.utils.clip_grad_norm_ does: gradients whose norm is larger are scaled down to this one.
struct Clipping {
  std::optional<double> norm;
  bool is_of_all_stages = true;  // else each stage goes by the norm of its own, and waits for nobody
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

  // After the last backward_weights() of the step: all that comes before update().
  void finish_gradients(std::int64_t step);
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
  void clip_gradients(std::int64_t step);
  bool norm_is_due(std::int64_t step) const { return norm_every_ > 0 && (step + 1) % norm_every_ == 0; }
  void tell_norm(std::int64_t step);
  // The squares of the gradients, summed over the stages by whose norm they are clipped.
  double squared_norm(std::int64_t step);
  void receive(int from_stage, const MessageKey& key, TensorView into);
  double receive_squares(int from_stage, const MessageKey& key);
  double& waited_for(int stage) { return stage > stage_.index ? waited_for_later_ : waited_for_earlier_; }

  Executable& executable_;
  Link& link_;
  const Stage& stage_;  // the Executable's
  Clipping clipping_;
  Averager* averager_;
  std::int64_t norm_every_;
  // On the Leaf, of steps whose norm was not taken yet.
  struct Squares {
    std::int64_t step = 0;
    std::vector<double> parts;                               // of the stages; or one, of all
    std::vector<std::unique_ptr<PendingTransfer>> arriving;  // into them
  };
  std::deque<Squares> squares_;
  double waited_for_earlier_ = 0;
  double waited_for_later_ = 0;
};

}  // namespace rookery
