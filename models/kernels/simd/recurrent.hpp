// The steps of a recurrent layer, one after the other, after the products of its inputs. Internal to the back
// ends.
#pragma once

#include "models/graph/ops/recurrent.hpp"
#include "models/kernels/simd/loops/loops.hpp"

namespace rookery::simd {

// The steps of a layer and of its gradient. A team of threads shares the units; each takes a part
// of R, which stays in its cache from step to step, and computes all that becomes of its units. What comes
// out does not depend on the number of threads. Products may be of numbers rounded to bf16, on a processor
// that has them.
class RecurrentSteps {
 public:
  // Whether there are loops for these sizes; a GRU must have linear_before_reset.
  static bool serve(const Op& op, const RecurrentSizes& sizes, bool rounds);
  RecurrentSteps(const Op& op, const RecurrentSizes& sizes, bool rounds);

  // Floats that run() and run_backward() need as scratch.
  std::int64_t forward_floats() const;
  std::int64_t backward_floats() const;

  // Biases and initial states may be absent, as may `cells` and the last states. In `cells` a GRU keeps its
  // candidates; of an RNN `gates` and y are the same.
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

  // All but r, dgates and what the layer has of y, gates, cells and dcells may be absent.
  struct Backward {
    const float* dy;
    const float* last_dh;
    const float* last_dc;
    const float* r;
    const float* y;
    const float* h;
    const float* c;
    const float* gates;
    const float* cells;
    float* dgates;
    float* dcells;
    float* dh;
    float* dc;
  };
  void run_backward(const Backward& layer, float* scratch) const;

 private:
  Index time(Index step) const { return reverse_ ? s_.steps - 1 - step : step; }
  Index blocks() const;
  std::int64_t panel_floats() const;
  std::int64_t gate_operand_floats() const;  // of a step
  Index width(Index block) const;
  float* panel(float* panels, Index block, Index gate) const;
  void pack_rows(Index block, const float* r, float* panels) const;
  void pack_columns(Index block, const float* r, float* panels) const;
  // What products take of states and gradients of gates: they themselves, or copies in bf16, of which this
  // makes those of some units.
  void round_columns(const float* x, Index row, Index first, Index columns, float* copy) const;
  const float* state_operand(Index unit, Index units, const float* states, float* copy) const;
  struct GateOperands {
    const float* dgates;
    const float* dcells;
  };
  GateOperands gate_operands(Index unit, Index units, const Backward& layer, Index step, float* copies) const;
  // The parts of a step: products of one block of units, and what becomes of `units` from `unit` on.
  void forward_products(Index block, const float* h, const float* state_bias, float* panels, float* gates,
                        float* cells) const;
  void forward_step(Index unit, Index units, const float* bias, const float* h_before, const float* c_before,
                    float* gates, float* cells, float* y) const;
  void backward_step(Index unit, Index units, const Backward& layer, Index step, float* dh, float* dc) const;
  void backward_products(Index block, const GateOperands& operands, float* panels, float* dh) const;

  enum class Kind : std::uint8_t { kLstm, kGru, kRnn };
  RecurrentSizes s_;
  Kind kind_;
  bool reverse_;
  bool rounds_;
  Index terms_per_float_;  // of sums of products, in R and the operands: 1, or 2 in bf16
  LstmStep lstm_;
  GruStep gru_;
  RnnStep rnn_;
  const Loops& loops_;
  void (*multiply_)(const Product&);
};

}  // namespace rookery::simd
