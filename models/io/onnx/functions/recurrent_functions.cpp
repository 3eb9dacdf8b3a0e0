#include "models/io/onnx/functions/recurrent_functions.hpp"

#include "models/graph/ops/recurrent.hpp"
#include "models/io/onnx/functions/function_body.hpp"

namespace rookery {
namespace {

using Name = FunctionBody::Name;

// Blocks of rows from PyTorch's order into ONNX's.
Name reordered(FunctionBody& body, const Name& rows, const GateOrders& orders) {
  const std::string from = orders.torch;
  const std::vector<Name> blocks = body.split(rows, from.size(), 0);
  std::vector<Name> in_order;
  for (const char gate : std::string(orders.onnx)) in_order.push_back(blocks[from.find(gate)]);
  return body.node("Concat", in_order, {{"axis", std::int64_t{0}}});
}

}  // namespace

std::vector<RecurrentForm> RecurrentForm::all() {
  std::vector<RecurrentForm> forms;
  for (const char* type : {"LSTM", "GRU", "RNN"}) {
    const bool is_rnn = type == std::string("RNN");
    for (const bool variant : {false, true}) {
      for (const bool has_bias : {false, true}) {
        for (const bool has_states : {false, true}) {
          forms.push_back({.type = type,
                           .in_torch_order = !is_rnn && variant,
                           .has_bias = has_bias,
                           .has_states = has_states,
                           .rectifies = is_rnn && variant});
        }
      }
    }
  }
  return forms;
}

RecurrentForm RecurrentForm::of(const Op& op) {
  return {.type = op.type,
          .in_torch_order = op.type != "RNN" && gates_of(op) == gate_orders(op)->torch,
          .has_bias = is_present(op.inputs, kRecurrentInputBias),
          .has_states = is_present(op.inputs, kRecurrentH),
          .rectifies = op.text("function", "Tanh") == "Relu"};
}

std::string RecurrentForm::name() const {
  return std::string(in_torch_order ? "Torch"
                     : rectifies    ? "Relu"
                                    : "") +
         type + (has_bias ? "Biased" : "") + (has_states ? "Initial" : "");
}

OnnxFunction RecurrentForm::function() const {
  const bool is_lstm = type == "LSTM";
  OnnxFunction function{
      .name = name(),
      .type = type,
      .implied = {},
      .inputs = 0,
      .given = {kRecurrentX, kRecurrentW, kRecurrentR},
      .attributes = {{"direction", AttributeKind::kString}, {"hidden_size", AttributeKind::kInt}},
      .outputs = is_lstm ? 3U : 2U};
  if (type == "RNN") {
    function.implied["function"] = std::string(rectifies ? "Relu" : "Tanh");
  } else {
    const GateOrders& orders = *gate_orders({.name = {}, .type = type, .inputs = {}, .outputs = {}});
    function.implied["gates"] = std::string(in_torch_order ? orders.torch : orders.onnx);
  }
  if (type == "GRU") function.attributes["linear_before_reset"] = AttributeKind::kInt;
  if (has_bias) function.given.insert(function.given.end(), {kRecurrentInputBias, kRecurrentStateBias});
  if (has_states) function.given.push_back(kRecurrentH);
  if (has_states && is_lstm) function.given.push_back(kRecurrentC);
  function.inputs = function.given.back() + 1;
  return function;
}

void RecurrentForm::write(FunctionBody& body) const {
  const GateOrders& orders = *gate_orders({.name = {}, .type = type, .inputs = {}, .outputs = {}});
  const auto input = [&](const char* name) { return body.input(name); };
  const auto rows = [&](const Name& name) { return in_torch_order ? reordered(body, name, orders) : name; };
  const Name x = input("x");
  const Name w = input("w");
  const Name r = input("r");
  const Name input_bias = has_bias ? input("input_bias") : Name();
  const Name state_bias = has_bias ? input("state_bias") : Name();
  const Name h = has_states ? input("h") : Name();
  const Name c = has_states && type == "LSTM" ? input("c") : Name();
  const Name first = body.integers({0});
  const auto of_direction = [&](const Name& value) {
    return value.empty() ? value : body.node("Unsqueeze", {value, first});
  };
  std::vector<Name> inputs{x, of_direction(rows(w)), of_direction(rows(r)), Name()};
  if (has_bias) {
    const std::map<std::string, Attribute> joined{{"axis", std::int64_t{0}}};
    inputs[3] = of_direction(body.node("Concat", {rows(input_bias), rows(state_bias)}, joined));
  }
  inputs.insert(inputs.end(), {Name(), of_direction(h)});
  if (type == "LSTM") inputs.push_back(of_direction(c));
  while (inputs.back().empty()) inputs.pop_back();
  const OnnxFunction of = function();
  const std::vector<Name> made = body.recurrent(type, inputs, of.outputs, rectifies, of.attributes);
  body.output(body.node("Squeeze", {made[0], body.integers({1})}));
  body.output(body.node("Squeeze", {made[1], first}), "last_h");
  if (type == "LSTM") body.output(body.node("Squeeze", {made[2], first}), "last_c");
}

}  // namespace rookery
