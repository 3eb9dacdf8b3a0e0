// The messages of the stages to each other when a step ends: gradients and new values of parameters that
// several of them use, and the norm of all gradients, by which they are clipped.
//
// Gradients and sums go from later stages to earlier ones, values and the norm the other way
// afterwards, parameters in one order everywhere. So no circle of stages can wait for each other,
// however little may be under way between two of them.
#pragma once

#include <cstdint>
#include <optional>

#include "models/runtime/executable.hpp"
#include "trainer/averager.hpp"
#include "trainer/link.hpp"

namespace rookery {

// As torch.nn.utils.clip_grad_norm_ does: gradients whose norm is larger are scaled down to this one.
struct Clipping {
  std::optional<double> norm;
  bool is_of_all_stages = true;  // else each stage goes by the norm of its own, and waits for nobody
};

// One thread. Link and Executable outlive it. Throws what Link throws, and TransportError for a number
// that no peer can have computed.
class StepExchange {
 public:
  // `averager`: of several clusters; outlives it.
  StepExchange(Executable& executable, Link& link, Clipping clipping, Averager* averager = nullptr);

  // After the last backward_weights() of the step: all that comes before update().
  void finish_gradients(std::int64_t step);
  // Between the forward passes of step `step` and of the next: hands new values of shared parameters on. With
  // a synchronous schedule that is after update().
  void spread_parameters(std::int64_t step);

  // In receive(), since it was made.
  double seconds_waiting() const { return seconds_waiting_; }

 private:
  void sum_shared_gradients(std::int64_t step);
  void clip_gradients(std::int64_t step);
  // The squares of the gradients, summed over the stages by whose norm they are clipped.
  double squared_norm(std::int64_t step);
  void receive(int from_stage, const MessageKey& key, TensorView into);
  double receive_squares(int from_stage, const MessageKey& key);

  Executable& executable_;
  Link& link_;
  const Stage& stage_;  // the Executable's
  Clipping clipping_;
  Averager* averager_;
  double seconds_waiting_ = 0;
};

}  // namespace rookery
