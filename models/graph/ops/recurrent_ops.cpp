// Recurrent layers: ONNX's LSTM, GRU and RNN (https://onnx.ai/onnx/operators/) in one direction, without the
// dimension of directions.
//
// X f32[steps, batch, input], W f32[gates * hidden, input], R f32[gates * hidden, hidden], biases
// f32[gates * hidden] (both or none), states f32[batch, hidden] (absent: zeros; those of an LSTM both or
// none) make Y f32[steps, batch, hidden]. Outputs but the first may be absent. Attributes: direction
// ("forward"; "reverse" goes from the last step to the first); gates, the order of the gates' rows: ONNX's
// ("iofc", "zrh"; "h"), or PyTorch's
// ("ifco", "rzh"); hidden_size, which may be left out; linear_before_reset (0) of GRU; function of RNN:
// "Tanh" or "Relu".

#include <array>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/families.hpp"
#include "models/graph/ops/recurrent.hpp"

namespace rookery {
namespace {

using Types = std::vector<TensorType>;

void expect(std::span<const TensorType> inputs, std::size_t position, const Shape& shape) {
  if (inputs[position] != TensorType{DType::kF32, shape}) {
    throw ConfigError(fmt::format("its input {} is {}, not f32{}", position, inputs[position].to_string(),
                                  shape.to_string()));
  }
}

void check_attributes(const Op& op) {
  const GateOrders& order = *gate_orders(op);
  const std::string gates = gates_of(op);
  if (gates != order.onnx && gates != order.torch)
    throw ConfigError(fmt::format("gates is '{}', not '{}' or '{}'", gates, order.onnx, order.torch));
  const std::string direction = op.text("direction", "forward");
  if (direction != "forward" && direction != "reverse")
    throw ConfigError(fmt::format("direction is '{}', not 'forward' or 'reverse'", direction));
  const std::string function = op.text("function", "Tanh");
  if (op.type == "RNN" && function != "Tanh" && function != "Relu")
    throw ConfigError(fmt::format("function is '{}', not 'Tanh' or 'Relu'", function));
}

// The states at all steps, at the last, and what backward needs.
Types infer_recurrent(const Op& op, std::span<const TensorType> inputs) {
  const bool is_lstm = op.type == "LSTM";
  const std::size_t most = is_lstm ? kRecurrentC + 1 : kRecurrentH + 1;
  if (inputs.size() <= kRecurrentR || inputs.size() > most || inputs[kRecurrentX].shape.rank() != 3 ||
      inputs[kRecurrentW].shape.rank() != 2 || inputs[kRecurrentR].shape.rank() != 2)
    throw ConfigError("needs X[steps, batch, input], W[gates * hidden, input] and R[gates * hidden, hidden]");
  check_attributes(op);
  const RecurrentSizes s =
      recurrent_sizes(op, inputs[kRecurrentX].shape, inputs[kRecurrentW].shape, inputs[kRecurrentR].shape);
  if (op.integer("hidden_size", s.hidden) != s.hidden)
    throw ConfigError(fmt::format("hidden_size is {}, but R has {}", op.integer("hidden_size", 0), s.hidden));
  if (s.steps < 1 || s.hidden < 1) throw ConfigError("has no steps, or no state");
  const TensorType state{DType::kF32, {s.batch, s.hidden}};
  expect(inputs, kRecurrentX, {s.steps, s.batch, s.input});
  expect(inputs, kRecurrentW, {s.rows(), s.input});
  expect(inputs, kRecurrentR, {s.rows(), s.hidden});
  for (const std::size_t bias : {kRecurrentInputBias, kRecurrentStateBias}) {
    if (is_present(op.inputs, bias)) expect(inputs, bias, {s.rows()});
  }
  for (const std::size_t initial : {kRecurrentH, kRecurrentC}) {
    if (is_present(op.inputs, initial)) expect(inputs, initial, state.shape);
  }
  if (is_present(op.inputs, kRecurrentInputBias) != is_present(op.inputs, kRecurrentStateBias))
    throw ConfigError("has one bias; it needs both or none");
  if (is_lstm && is_present(op.inputs, kRecurrentH) != is_present(op.inputs, kRecurrentC))
    throw ConfigError("has one initial state; it needs both or none");
  const TensorType states{DType::kF32, {s.steps, s.batch, s.hidden}};
  const TensorType gates{DType::kF32, {s.steps, s.batch, s.rows()}};
  if (is_lstm) return {states, state, state, gates, states};
  if (op.type == "GRU") return {states, state, gates, states};
  return {states, state};
}

void keep_gates(Graph& graph, OpId id) {
  const std::string name = graph.op(id).name;
  const std::size_t results = graph.op(id).type == "LSTM" ? 3 : 2;
  graph.op(id).outputs.resize(results, kNoValue);
  graph.add_output_of(id, name + ".gates");
  graph.add_output_of(id, name + (results == 3 ? ".cells" : ".candidates"));
}

// In three steps, of which only the first goes from step to step: the gradients of the gates before their
// functions; then the gradients of X and of the weights, each in one product over all steps.
void differentiate_recurrent(GradientBuilder& builder, const Op& op) {
  const bool is_lstm = op.type == "LSTM";
  const bool is_gru = op.type == "GRU";
  std::vector<ValueId> received;
  bool matters = false;
  for (std::size_t i = 0; i < (is_lstm ? 3U : 2U); ++i) {
    received.push_back(is_present(op.outputs, i) ? builder.gradient_of(op.outputs[i]) : kNoValue);
    matters = matters || received.back() != kNoValue;
  }
  if (!matters) return;
  const auto input = [&](std::size_t i) { return is_present(op.inputs, i) ? op.inputs[i] : kNoValue; };
  const ValueId x = op.inputs[kRecurrentX];
  const ValueId w = op.inputs[kRecurrentW];
  const ValueId r = op.inputs[kRecurrentR];
  const ValueId states = op.outputs[0];
  std::vector<ValueId> inputs = received;
  inputs.insert(inputs.end(), {r, states, input(kRecurrentH)});
  std::vector<ValueId> made{states};
  std::vector<ValueId> initial{input(kRecurrentH)};
  if (is_lstm) {
    inputs.insert(inputs.end(), {input(kRecurrentC), op.outputs[3], op.outputs[4]});
    made = {op.outputs[3]};
    initial.push_back(input(kRecurrentC));
  } else if (is_gru) {
    inputs.insert(inputs.end(), {op.outputs[2], op.outputs[3]});
    made = {op.outputs[2], op.outputs[3]};
  }
  const std::vector<ValueId> gates =
      builder.add_making(Phase::kBackwardInputs, op, op.type + "GradGates", inputs, made, initial);
  std::vector<ValueId> of_weights{gates[0], x, states, input(kRecurrentH)};
  if (is_gru) of_weights.insert(of_weights.end(), {gates[1], op.outputs[3]});
  const std::vector<ValueId> weights{w, r, input(kRecurrentInputBias), input(kRecurrentStateBias)};
  builder.add(builder.phase_for(weights), op, op.type + "GradWeights", of_weights, weights);
  builder.add(builder.phase_for(x), op, "MatMul", {gates[0], w}, {x});
}

double products(const RecurrentSizes& s, std::int64_t width) {
  return 2.0 * static_cast<double>(s.steps * s.batch) * static_cast<double>(s.rows() * width);
}

// An estimate: two functions for every gate, at what Sigmoid and Tanh count (unary_ops.cpp).
constexpr double kFlopsOfGate = 20;

double recurrent_flops(const Op& op, std::span<const TensorType> inputs, std::span<const TensorType>) {
  const RecurrentSizes s =
      recurrent_sizes(op, inputs[kRecurrentX].shape, inputs[kRecurrentW].shape, inputs[kRecurrentR].shape);
  return products(s, s.input + s.hidden) + kFlopsOfGate * static_cast<double>(s.steps * s.batch * s.rows());
}

double grad_gates_flops(const Op& op, std::span<const TensorType> inputs, std::span<const TensorType>) {
  const std::size_t at_r = op.type.starts_with("LSTM") ? 3 : 2;
  const Shape& r = inputs[at_r].shape;
  const Shape& states = inputs[at_r + 1].shape;
  return (2.0 * static_cast<double>(r[1]) + kFlopsOfGate) * static_cast<double>(states[0] * states[1] * r[0]);
}

double grad_weights_flops(const Op&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  const Shape& gates = inputs[0].shape;
  return 2.0 * static_cast<double>(gates.elements()) *
         static_cast<double>(inputs[1].shape[2] + inputs[2].shape[2]);
}

}  // namespace

bool is_present(std::span<const ValueId> ids, std::size_t position) {
  return position < ids.size() && ids[position] != kNoValue;
}

bool is_reverse(const Op& op) {
  return op.text("direction", "forward") == "reverse";
}

const GateOrders* gate_orders(const Op& op) {
  static constexpr std::array<GateOrders, 3> kOrders{
      {{"LSTM", "iofc", "ifco"}, {"GRU", "zrh", "rzh"}, {"RNN", "h", "h"}}};
  for (const GateOrders& orders : kOrders) {
    if (op.type.starts_with(orders.type)) return &orders;
  }
  return nullptr;
}

std::string gates_of(const Op& op) {
  return op.text("gates", gate_orders(op)->onnx);
}

std::int64_t recurrent_gates(const Op& op) {
  return std::ssize(gates_of(op));
}

std::int64_t gate_position(const Op& op, char gate) {
  return static_cast<std::int64_t>(gates_of(op).find(gate));
}

RecurrentSizes recurrent_sizes(const Op& op, const Shape& x, const Shape& w, const Shape& r) {
  return {.steps = x[0], .batch = x[1], .input = w[1], .hidden = r[1], .gates = recurrent_gates(op)};
}

std::vector<OpDefinition> recurrent_ops() {
  return {
      {.type = "LSTM",
       .description =
           R"((X, W, R, input bias?, state bias?, initial h?, initial c?) -> Y, last h?, last c?, gates?, cells?
Training form: gates f32[steps, batch, 4 hidden] are those of every step, after their functions; cells
f32[steps, batch, hidden] are c of every step.)",
       .infer = infer_recurrent,
       .to_training = keep_gates,
       .differentiate = differentiate_recurrent,
       .flops = recurrent_flops},
      {.type = "LSTMGradGates",
       .description =
           "(dY?, dlast h?, dlast c?, R, Y, initial h?, initial c?, gates, cells) -> dgates, dinitial h, "
           "dinitial c: dgates before their functions. dX is MatMul(dgates, W)",
       .flops = grad_gates_flops},
      {.type = "LSTMGradWeights",
       .description = "(dgates, X, Y, initial h?) -> dW, dR, dinput bias, dstate bias",
       .flops = grad_weights_flops},
      {.type = "GRU",
       .description = R"((X, W, R, input bias?, state bias?, initial h?) -> Y, last h?, gates?, candidates?
Training form: gates f32[steps, batch, 3 hidden] are those of every step, after their functions; candidates
f32[steps, batch, hidden] are what the reset gate r made of the state h, or with linear_before_reset what it is
multiplied with, R h + bias.)",
       .infer = infer_recurrent,
       .to_training = keep_gates,
       .differentiate = differentiate_recurrent,
       .flops = recurrent_flops},
      {.type = "GRUGradGates",
       .description =
           "(dY?, dlast h?, R, Y, initial h?, gates, candidates) -> dgates, dcandidates, dinitial h: dgates "
           "before their functions; dcandidates 0 without linear_before_reset. dX is MatMul(dgates, W)",
       .flops = grad_gates_flops},
      {.type = "GRUGradWeights",
       .description =
           "(dgates, X, Y, initial h?, dcandidates, candidates) -> dW, dR, dinput bias, dstate bias",
       .flops = grad_weights_flops},
      {.type = "RNN",
       .description = "(X, W, R, input bias?, state bias?, initial h?) -> Y, last h?",
       .infer = infer_recurrent,
       .differentiate = differentiate_recurrent,
       .flops = recurrent_flops},
      {.type = "RNNGradGates",
       .description =
           "(dY?, dlast h?, R, Y, initial h?) -> dgates, dinitial h: dgates before their functions. dX is "
           "MatMul(dgates, W)",
       .flops = grad_gates_flops},
      {.type = "RNNGradWeights",
       .description = "(dgates, X, Y, initial h?) -> dW, dR, dinput bias, dstate bias",
       .flops = grad_weights_flops},
  };
}

}  // namespace rookery
