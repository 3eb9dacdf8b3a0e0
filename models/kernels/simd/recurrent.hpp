// The steps of an LSTM, one after the other, after the products of its inputs. Internal to the back ends.
#pragma once

#include "models/graph/recurrent.hpp"
#include "models/kernels/simd/loops/loops.hpp"

namespace rookery::simd {

// What the steps of a layer and of its gradient go by. A team of threads shares the units; each takes a part
// of R, which stays in its cache from step to step, and computes all that becomes of its units. What comes
// out does not depend on the number of threads.
class LstmSteps {
 public:
  // Whether there are loops for these sizes.
  static bool serve(const RecurrentSizes& sizes);
  LstmSteps(const Op& op, const RecurrentSizes& sizes);

  // Floats that run() and run_backward() need as scratch.
  std::int64_t forward_floats() const;
  std::int64_t backward_floats() const;

  // Biases and initial states may be absent, as may `cells` and the last states.
  struct Forward {
    const float* r;
    const float* input_bias;
    const float* state_bias;
    const float* h;
    const float* c;
    float* gates;  // on entry X W^T
    float* cells;
    float* y;
    float* last_h;
    float* last_c;
  };
  void run(const Forward& layer, float* scratch) const;

  // All but r, gates, cells and dgates may be absent.
  struct Backward {
    const float* dy;
    const float* last_dh;
    const float* last_dc;
    const float* r;
    const float* c;
    const float* gates;
    const float* cells;
    float* dgates;
    float* dh;
    float* dc;
  };
  void run_backward(const Backward& layer, float* scratch) const;

 private:
  Index time(Index step) const { return reverse_ ? s_.steps - 1 - step : step; }
  Index blocks() const;
  Index width(Index block) const;
  LstmStep step_of(Index block) const;

  RecurrentSizes s_;
  bool reverse_;
  LstmStep whole_;
  const Loops& loops_;
};

}  // namespace rookery::simd
