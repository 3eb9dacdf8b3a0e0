#include "models/kernels/simd/recurrent.hpp"

#include <algorithm>

#include "models/kernels/threads.hpp"

namespace rookery::simd {

namespace {

// Units that a thread works on at a time: two vectors of the widest.
constexpr Index kBlock = 32;
constexpr Index kWidestLanes = 16;

void copy_or_zero(const float* from, Index count, float* to) {
  if (from == nullptr) {
    std::fill_n(to, count, 0.0F);
  } else {
    std::copy_n(from, count, to);
  }
}

}  // namespace

bool LstmSteps::serve(const RecurrentSizes& sizes) {
  return sizes.hidden % kWidestLanes == 0;
}

LstmSteps::LstmSteps(const Op& op, const RecurrentSizes& sizes)
    : s_(sizes),
      reverse_(is_reverse(op)),
      whole_{.rows = sizes.batch,
             .units = sizes.hidden,
             .gate_row = sizes.rows(),
             .state_row = sizes.hidden,
             .i = gate_position(op, 'i') * sizes.hidden,
             .o = gate_position(op, 'o') * sizes.hidden,
             .f = gate_position(op, 'f') * sizes.hidden,
             .c = gate_position(op, 'c') * sizes.hidden},
      loops_(loops()) {}

Index LstmSteps::blocks() const {
  return (s_.hidden + kBlock - 1) / kBlock;
}

Index LstmSteps::width(Index block) const {
  return std::min(kBlock, s_.hidden - block * kBlock);
}

LstmStep LstmSteps::step_of(Index block) const {
  LstmStep step = whole_;
  step.units = width(block);
  return step;
}

// R turned, a bias, and the cells of a step.
std::int64_t LstmSteps::forward_floats() const {
  return s_.rows() * s_.hidden + s_.rows() + s_.states();
}

// R in blocks of columns, and the gradients of a step's states and cells.
std::int64_t LstmSteps::backward_floats() const {
  return s_.rows() * s_.hidden + 2 * s_.states();
}

void LstmSteps::run(const Forward& layer, float* scratch) const {
  float* const turned = scratch;
  float* const bias = turned + s_.rows() * s_.hidden;
  float* const cell = bias + s_.rows();
  const bool has_bias = layer.input_bias != nullptr;
  for (Index row = 0; has_bias && row < s_.rows(); ++row)
    bias[row] = layer.input_bias[row] + layer.state_bias[row];
  in_team(blocks(), [&](Index member, Index members, const auto& barrier) {
    const Index first = member * blocks() / members;
    const Index last = (member + 1) * blocks() / members;
    // Column j of gate g of a block is turned[(block * gates + g) * hidden * kBlock + k * width + j].
    const auto panel = [&](Index block, Index gate) {
      return turned + (block * s_.gates * kBlock + gate * width(block)) * s_.hidden;
    };
    for (Index block = first; block < last; ++block) {
      for (Index gate = 0; gate < s_.gates; ++gate) {
        loops_.transpose_whole(width(block), s_.hidden,
                               layer.r + (gate * s_.hidden + block * kBlock) * s_.hidden, s_.hidden,
                               panel(block, gate), width(block));
      }
    }
    const float* h = layer.h;
    const float* c_before = layer.c;
    for (Index step = 0; step < s_.steps; ++step) {
      float* const gates = layer.gates + time(step) * s_.batch * s_.rows();
      float* const y = layer.y + time(step) * s_.states();
      float* const c = layer.cells == nullptr ? cell : layer.cells + time(step) * s_.states();
      for (Index block = first; block < last; ++block) {
        const Index unit = block * kBlock;
        for (Index gate = 0; h != nullptr && gate < s_.gates; ++gate) {
          loops_.multiply({.m = s_.batch,
                           .n = width(block),
                           .k = s_.hidden,
                           .a = h,
                           .a_row = s_.hidden,
                           .a_column = 1,
                           .b = panel(block, gate),
                           .b_row = width(block),
                           .c = gates + gate * s_.hidden + unit,
                           .c_row = s_.rows(),
                           .accumulates = true});
        }
        loops_.lstm_step(step_of(block), has_bias ? bias + unit : nullptr,
                         c_before == nullptr ? nullptr : c_before + unit, gates + unit, c + unit, y + unit);
      }
      h = y;
      c_before = c;
      barrier();
    }
  });
  const Index last = time(s_.steps - 1) * s_.states();
  if (layer.last_h != nullptr) std::copy_n(layer.y + last, s_.states(), layer.last_h);
  if (layer.last_c != nullptr)
    std::copy_n(layer.cells == nullptr ? cell : layer.cells + last, s_.states(), layer.last_c);
}

void LstmSteps::run_backward(const Backward& layer, float* scratch) const {
  float* const columns = scratch;
  float* const dh = columns + s_.rows() * s_.hidden;
  float* const dc = dh + s_.states();
  copy_or_zero(layer.last_dh, s_.states(), dh);
  copy_or_zero(layer.last_dc, s_.states(), dc);
  in_team(blocks(), [&](Index member, Index members, const auto& barrier) {
    const Index first = member * blocks() / members;
    const Index last = (member + 1) * blocks() / members;
    const auto panel = [&](Index block) { return columns + block * kBlock * s_.rows(); };
    for (Index block = first; block < last; ++block) {
      for (Index row = 0; row < s_.rows(); ++row) {
        std::copy_n(layer.r + row * s_.hidden + block * kBlock, width(block),
                    panel(block) + row * width(block));
      }
    }
    for (Index step = s_.steps; step-- > 0;) {
      const Index state = time(step) * s_.states();
      const Index gate = time(step) * s_.batch * s_.rows();
      const float* const c_before = step > 0 ? layer.cells + time(step - 1) * s_.states() : layer.c;
      for (Index block = first; block < last; ++block) {
        const Index unit = block * kBlock;
        loops_.lstm_step_grad(step_of(block), layer.gates + gate + unit, layer.cells + state + unit,
                              c_before == nullptr ? nullptr : c_before + unit,
                              layer.dy == nullptr ? nullptr : layer.dy + state + unit, dh + unit, dc + unit,
                              layer.dgates + gate + unit);
      }
      barrier();
      if (step == 0 && layer.dh == nullptr) continue;
      for (Index block = first; block < last; ++block) {
        loops_.multiply({.m = s_.batch,
                         .n = width(block),
                         .k = s_.rows(),
                         .a = layer.dgates + gate,
                         .a_row = s_.rows(),
                         .a_column = 1,
                         .b = panel(block),
                         .b_row = width(block),
                         .c = dh + block * kBlock,
                         .c_row = s_.hidden});
      }
    }
  });
  if (layer.dh != nullptr) std::copy_n(dh, s_.states(), layer.dh);
  if (layer.dc != nullptr) std::copy_n(dc, s_.states(), layer.dc);
}

}  // namespace rookery::simd
