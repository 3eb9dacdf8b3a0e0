#include "models/kernels/simd/recurrent.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "models/kernels/threads.hpp"

namespace rookery::simd {

namespace {

// Units that a thread works on at a time: two vectors of the widest.
constexpr Index kUnitBlock = 32;
constexpr Index kWidestLanes = 16;

void copy_or_zero(const float* from, Index count, float* to) {
  if (from == nullptr) {
    std::fill_n(to, count, 0.0F);
  } else {
    std::copy_n(from, count, to);
  }
}

}  // namespace

bool RecurrentSteps::serve(const Op& op, const RecurrentSizes& sizes, bool rounds) {
  const bool has_step = !op.type.starts_with("GRU") || op.integer("linear_before_reset", 0) != 0;
  const bool has_products = !rounds || loops().multiply_pairs != nullptr;
  return has_step && has_products && sizes.hidden % kWidestLanes == 0;
}

RecurrentSteps::RecurrentSteps(const Op& op, const RecurrentSizes& sizes, bool rounds)
    : s_(sizes),
      kind_(op.type.starts_with("LSTM")  ? Kind::kLstm
            : op.type.starts_with("GRU") ? Kind::kGru
                                         : Kind::kRnn),
      reverse_(is_reverse(op)),
      rounds_(rounds),
      terms_per_float_(rounds ? 2 : 1),
      lstm_{.rows = sizes.batch,
            .units = sizes.hidden,
            .gate_row = sizes.rows(),
            .state_row = sizes.hidden,
            .i = gate_position(op, 'i') * sizes.hidden,
            .o = gate_position(op, 'o') * sizes.hidden,
            .f = gate_position(op, 'f') * sizes.hidden,
            .c = gate_position(op, 'c') * sizes.hidden},
      gru_{.rows = sizes.batch,
           .units = sizes.hidden,
           .gate_row = sizes.rows(),
           .state_row = sizes.hidden,
           .z = gate_position(op, 'z') * sizes.hidden,
           .r = gate_position(op, 'r') * sizes.hidden,
           .h = gate_position(op, 'h') * sizes.hidden},
      rnn_{.rows = sizes.batch,
           .units = sizes.hidden,
           .row = sizes.hidden,
           .rectifies = op.text("function", "Tanh") == "Relu"},
      loops_(loops()),
      multiply_(rounds ? loops_.multiply_pairs : loops_.multiply) {}

Index RecurrentSteps::blocks() const {
  return (s_.hidden + kUnitBlock - 1) / kUnitBlock;
}

Index RecurrentSteps::width(Index block) const {
  return std::min(kUnitBlock, s_.hidden - block * kUnitBlock);
}

// R turned, a bias, and the cells of a step; in bf16 the states of two steps, of which one is read while the
// other is written.
std::int64_t RecurrentSteps::forward_floats() const {
  return panel_floats() + s_.rows() + s_.states() + (rounds_ ? 2 * s_.states() / terms_per_float_ : 0);
}

// R in blocks of columns, and the gradients of a step's states and cells; in bf16 those of the gates and
// candidates of two steps.
std::int64_t RecurrentSteps::backward_floats() const {
  return panel_floats() + 2 * s_.states() + (rounds_ ? 2 * gate_operand_floats() : 0);
}

std::int64_t RecurrentSteps::panel_floats() const {
  return s_.rows() * s_.hidden / terms_per_float_;
}

std::int64_t RecurrentSteps::gate_operand_floats() const {
  return (s_.batch * s_.rows() + (kind_ == Kind::kGru ? s_.states() : 0)) / terms_per_float_;
}

// Where column 0 of a gate of a block begins; row k of it is width(block) floats further than row k - 1.
float* RecurrentSteps::panel(float* panels, Index block, Index gate) const {
  return panels + (block * s_.gates * kUnitBlock + gate * width(block)) * s_.hidden / terms_per_float_;
}

void RecurrentSteps::pack_rows(Index block, const float* r, float* panels) const {
  for (Index gate = 0; gate < s_.gates; ++gate) {
    const float* const rows = r + (gate * s_.hidden + block * kUnitBlock) * s_.hidden;
    float* const to = panel(panels, block, gate);
    if (!rounds_) {
      loops_.transpose_whole(width(block), s_.hidden, rows, s_.hidden, to, width(block));
      continue;
    }
    std::array<float, kUnitBlock * kWidestLanes> pairs;
    for (Index k = 0; k < s_.hidden; k += 2 * kWidestLanes) {
      const Index terms = std::min(2 * kWidestLanes, s_.hidden - k);
      for (Index row = 0; row < width(block); ++row) {
        loops_.to_bfloat16(terms, rows + row * s_.hidden + k,
                           reinterpret_cast<std::byte*>(pairs.data() + row * kWidestLanes));
      }
      loops_.transpose_whole(width(block), terms / 2, pairs.data(), kWidestLanes, to + k / 2 * width(block),
                             width(block));
    }
  }
}

void RecurrentSteps::pack_columns(Index block, const float* r, float* panels) const {
  const float* from = r + block * kUnitBlock;
  float* to = panel(panels, block, 0);
  for (Index row = 0; row < s_.rows();
       row += terms_per_float_, from += terms_per_float_ * s_.hidden, to += width(block)) {
    if (!rounds_) {
      std::copy_n(from, width(block), to);
      continue;
    }
    std::array<float, 2 * kUnitBlock> pairs;
    for (Index unit = 0; unit < width(block); ++unit) {
      pairs[2 * unit] = from[unit];
      pairs[2 * unit + 1] = from[s_.hidden + unit];
    }
    loops_.to_bfloat16(2 * width(block), pairs.data(), reinterpret_cast<std::byte*>(to));
  }
}

void RecurrentSteps::round_columns(const float* x, Index row, Index first, Index columns, float* copy) const {
  for (Index at = first; at < s_.batch * row; at += row)
    loops_.to_bfloat16(columns, x + at, reinterpret_cast<std::byte*>(copy) + 2 * at);
}

const float* RecurrentSteps::state_operand(Index unit, Index units, const float* states, float* copy) const {
  if (!rounds_) return states;
  round_columns(states, s_.hidden, unit, units, copy);
  return copy;
}

RecurrentSteps::GateOperands RecurrentSteps::gate_operands(Index unit, Index units, const Backward& layer,
                                                           Index step, float* copies) const {
  const float* const dgates = layer.dgates + time(step) * s_.batch * s_.rows();
  const float* const dcells = layer.dcells == nullptr ? nullptr : layer.dcells + time(step) * s_.states();
  if (!rounds_) return {dgates, dcells};
  float* const gate_copy = copies + step % 2 * gate_operand_floats();
  float* const cell_copy = gate_copy + s_.batch * s_.rows() / terms_per_float_;
  for (Index gate = 0; gate < s_.gates; ++gate)
    round_columns(dgates, s_.rows(), gate * s_.hidden + unit, units, gate_copy);
  if (dcells != nullptr) round_columns(dcells, s_.hidden, unit, units, cell_copy);
  return {gate_copy, cell_copy};
}

void RecurrentSteps::forward_products(Index block, const float* h, const float* state_bias, float* panels,
                                      float* gates, float* cells) const {
  const Index unit = block * kUnitBlock;
  for (Index gate = 0; gate < s_.gates; ++gate) {
    const bool is_candidate = kind_ == Kind::kGru && gate * s_.hidden == gru_.h;
    const float* const bias = is_candidate && state_bias != nullptr ? state_bias + gru_.h + unit : nullptr;
    if (h == nullptr) {
      for (Index row = 0; is_candidate && row < s_.batch; ++row)
        copy_or_zero(bias, width(block), cells + row * s_.hidden + unit);
      continue;
    }
    multiply_({.m = s_.batch,
               .n = width(block),
               .k = s_.hidden / terms_per_float_,
               .a = h,
               .a_row = s_.hidden / terms_per_float_,
               .a_column = 1,
               .b = panel(panels, block, gate),
               .b_row = width(block),
               .c = is_candidate ? cells + unit : gates + gate * s_.hidden + unit,
               .c_row = is_candidate ? s_.hidden : s_.rows(),
               .columns = bias,
               .accumulates = !is_candidate});
  }
}

void RecurrentSteps::forward_step(Index unit, Index units, const float* bias, const float* h_before,
                                  const float* c_before, float* gates, float* cells, float* y) const {
  const auto own = [&](const float* from) { return from == nullptr ? from : from + unit; };
  if (kind_ == Kind::kLstm) {
    LstmStep step = lstm_;
    step.units = units;
    loops_.lstm_step(step, own(bias), own(c_before), gates + unit, cells + unit, y + unit);
  } else if (kind_ == Kind::kGru) {
    GruStep step = gru_;
    step.units = units;
    loops_.gru_step(step, own(bias), own(h_before), cells + unit, gates + unit, y + unit);
  } else {
    RnnStep step = rnn_;
    step.units = units;
    loops_.rnn_step(step, own(bias), y + unit);
  }
}

void RecurrentSteps::run(const Forward& layer, float* scratch) const {
  float* const panels = scratch;
  float* const bias = panels + panel_floats();
  float* const cell = bias + s_.rows();
  float* const copies = cell + s_.states();
  const bool has_bias = layer.input_bias != nullptr;
  for (Index row = 0; has_bias && row < s_.rows(); ++row) {
    const bool is_apart = kind_ == Kind::kGru && row >= gru_.h && row < gru_.h + s_.hidden;
    bias[row] = layer.input_bias[row] + (is_apart ? 0 : layer.state_bias[row]);
  }
  in_team(blocks(), [&](Index member, Index members, const auto& barrier) {
    const Index first = member * blocks() / members;
    const Index last = (member + 1) * blocks() / members;
    const Index unit = first * kUnitBlock;
    const Index units = std::min(last * kUnitBlock, s_.hidden) - unit;
    for (Index block = first; block < last; ++block) pack_rows(block, layer.r, panels);
    const auto operand = [&](const float* states, Index step) {
      return state_operand(unit, units, states, copies + step % 2 * s_.states() / terms_per_float_);
    };
    const float* h_before = layer.h;
    const float* c_before = layer.c;
    const float* h = nullptr;
    if (h_before != nullptr) {
      h = operand(h_before, 1);
      if (rounds_) barrier();
    }
    for (Index step = 0; step < s_.steps; ++step) {
      float* const gates = layer.gates + time(step) * s_.batch * s_.rows();
      float* const y = layer.y + time(step) * s_.states();
      float* const c = layer.cells == nullptr ? cell : layer.cells + time(step) * s_.states();
      for (Index block = first; block < last; ++block)
        forward_products(block, h, layer.state_bias, panels, gates, c);
      forward_step(unit, units, has_bias ? bias : nullptr, h_before, c_before, gates, c, y);
      h_before = y;
      c_before = c;
      h = operand(y, step);
      barrier();
    }
  });
  const Index last = time(s_.steps - 1) * s_.states();
  if (layer.last_h != nullptr) std::copy_n(layer.y + last, s_.states(), layer.last_h);
  if (layer.last_c != nullptr)
    std::copy_n(layer.cells == nullptr ? cell : layer.cells + last, s_.states(), layer.last_c);
}

void RecurrentSteps::backward_step(Index unit, Index units, const Backward& layer, Index step, float* dh,
                                   float* dc) const {
  const Index state = time(step) * s_.states() + unit;
  const Index gate = time(step) * s_.batch * s_.rows() + unit;
  const float* const dy = layer.dy == nullptr ? nullptr : layer.dy + state;
  const auto before = [&](const float* states, const float* initial) {
    if (step > 0) return states + time(step - 1) * s_.states() + unit;
    return initial == nullptr ? initial : initial + unit;
  };
  if (kind_ == Kind::kLstm) {
    LstmStep part = lstm_;
    part.units = units;
    loops_.lstm_step_grad(part, layer.gates + gate, layer.cells + state, before(layer.cells, layer.c), dy,
                          dh + unit, dc + unit, layer.dgates + gate);
  } else if (kind_ == Kind::kGru) {
    GruStep part = gru_;
    part.units = units;
    loops_.gru_step_grad(part, layer.gates + gate, layer.cells + state, before(layer.y, layer.h), dy,
                         dh + unit, layer.dgates + gate, layer.dcells + state);
  } else {
    RnnStep part = rnn_;
    part.units = units;
    loops_.rnn_step_grad(part, layer.y + state, dy, dh + unit, layer.dgates + gate);
  }
}

// dh of the step before: dgates R; of a GRU, whose candidates come last in R, in two parts, and more to what
// went past the gates.
void RecurrentSteps::backward_products(Index block, const GateOperands& operands, float* panels,
                                       float* dh) const {
  const bool is_gru = kind_ == Kind::kGru;
  const float* const columns = panel(panels, block, 0);
  Product product{.m = s_.batch,
                  .n = width(block),
                  .k = (is_gru ? gru_.h : s_.rows()) / terms_per_float_,
                  .a = operands.dgates,
                  .a_row = s_.rows() / terms_per_float_,
                  .a_column = 1,
                  .b = columns,
                  .b_row = width(block),
                  .c = dh + block * kUnitBlock,
                  .c_row = s_.hidden,
                  .accumulates = is_gru};
  multiply_(product);
  if (!is_gru) return;
  product.k = s_.hidden / terms_per_float_;
  product.a = operands.dcells;
  product.a_row = s_.hidden / terms_per_float_;
  product.b = columns + gru_.h / terms_per_float_ * width(block);
  multiply_(product);
}

void RecurrentSteps::run_backward(const Backward& layer, float* scratch) const {
  float* const panels = scratch;
  float* const dh = panels + panel_floats();
  float* const dc = dh + s_.states();
  float* const copies = dc + s_.states();
  copy_or_zero(layer.last_dh, s_.states(), dh);
  copy_or_zero(layer.last_dc, s_.states(), dc);
  in_team(blocks(), [&](Index member, Index members, const auto& barrier) {
    const Index first = member * blocks() / members;
    const Index last = (member + 1) * blocks() / members;
    const Index unit = first * kUnitBlock;
    const Index units = std::min(last * kUnitBlock, s_.hidden) - unit;
    for (Index block = first; block < last; ++block) pack_columns(block, layer.r, panels);
    for (Index step = s_.steps; step-- > 0;) {
      backward_step(unit, units, layer, step, dh, dc);
      const GateOperands operands = gate_operands(unit, units, layer, step, copies);
      barrier();
      if (step == 0 && layer.dh == nullptr) continue;
      for (Index block = first; block < last; ++block) backward_products(block, operands, panels, dh);
    }
  });
  if (layer.dh != nullptr) std::copy_n(dh, s_.states(), layer.dh);
  if (layer.dc != nullptr) std::copy_n(dc, s_.states(), layer.dc);
}

}  // namespace rookery::simd
