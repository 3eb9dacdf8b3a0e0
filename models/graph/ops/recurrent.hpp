// The sizes, inputs and outputs of LSTM, GRU and RNN (recurrent_ops.cpp), which the back ends share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "models/graph/graph.hpp"

namespace rookery {

// Positions among the inputs.
enum RecurrentInput : std::size_t {
  kRecurrentX,
  kRecurrentW,
  kRecurrentR,
  kRecurrentInputBias,
  kRecurrentStateBias,
  kRecurrentH,
  kRecurrentC,  // LSTM
};

struct RecurrentSizes {
  std::int64_t steps, batch, input, hidden;
  std::int64_t gates;  // blocks of rows of W and R: 4, 3 or 1

  std::int64_t rows() const { return gates * hidden; }
  std::int64_t states() const { return batch * hidden; }  // elements of the state at one step
};

// The orders of the gates' rows, by their letters in ONNX: ONNX's, which is the default, and PyTorch's.
struct GateOrders {
  const char* type;
  const char* onnx;
  const char* torch;
};
// nullptr where the op is no recurrent one; gradient ops are.
const GateOrders* gate_orders(const Op& op);
// The order of an op's gates.
std::string gates_of(const Op& op);

// 4, 3 or 1; of a gradient op, too.
std::int64_t recurrent_gates(const Op& op);

// From the shapes of X, W and R.
RecurrentSizes recurrent_sizes(const Op& op, const Shape& x, const Shape& w, const Shape& r);

// Where a gate's block of rows is, by its letter in ONNX: i, o, f, c of an LSTM, z, r, h of a GRU.
std::int64_t gate_position(const Op& op, char gate);

bool is_reverse(const Op& op);
// Whether an input or output is there, and not kNoValue.
bool is_present(std::span<const ValueId> ids, std::size_t position);

}  // namespace rookery
