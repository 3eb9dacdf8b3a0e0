// Models with their losses that together use every kind of layer, on f32[batch, 2, 6, 6] and five classes.
#pragma once

#include <string>
#include <vector>

#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/loss.hpp"
#include "tests/support/tied_model.hpp"

namespace rookery {

// A branch around an op, every kind of layer with state, dropout; with `kinks` also what has no
// derivative everywhere.
inline Graph branching_model(bool kinks = true) {
  GraphBuilder b;
  ValueId x = b.input("input", {2, 6, 6});
  x = b.conv2d("conv_1", x, 4);
  const ValueId branch = x;
  if (kinks) x = b.relu("relu_1", x);
  x = b.conv2d("conv_2", x, 4);
  x = b.add("sum", x, branch);
  x = b.batch_norm("bn_1", x);
  if (kinks) x = b.max_pool2d("pool", x, 2, 2);
  x = b.dropout("drop", x, 0.25F);
  x = b.flatten("flat", x);
  x = b.linear("dense_1", x, 12);
  x = kinks ? b.relu("relu_2", x) : b.softmax("softmax", x);
  x = b.linear("dense_2", x, 5);
  Graph graph = b.finish(x);
  add_loss(graph, "cross_entropy");
  return graph;
}

// Functions of one and two numbers: parameters as operands, broadcasting, branches that skip ops.
inline Graph elementwise_model(bool kinks = true) {
  GraphBuilder b;
  const Initializer uniform{.kind = Initializer::Kind::kUniform, .bound = 0.5F};
  ValueId x = b.linear("dense_1", b.flatten("flat", b.input("input", {2, 6, 6})), 12);
  x = b.add("embed", x, b.parameter("position", {1, 12}, uniform));
  const ValueId branch = x;
  x = b.gelu("gelu", x);
  x = b.scale("scale", x, {12});
  x = kinks ? b.leaky_relu("leaky", x, 0.1F) : b.gelu("gelu_tanh", x, "tanh");
  x = b.sub("skip", b.silu("silu", x), branch);
  x = b.linear("dense_2", x, 12);
  if (kinks) x = b.apply("prelu", "PRelu", {x, b.parameter("slope", {1}, uniform)});
  x = b.mul("gain", x, b.apply("exp", "Exp", {b.parameter("log_gain", {12}, uniform)}));
  const ValueId divisor = b.apply("softplus", "Softplus", {branch});
  x = b.div("divide", b.tanh("tanh", x), divisor);
  x = b.linear("dense_3", x, 5);
  Graph graph = b.finish(x);
  add_loss(graph, "cross_entropy");
  return graph;
}

// A model that moves, joins, takes and chooses elements: constants, views of parameters, ops with several
// outputs, of which one goes nowhere.
inline Graph moving_model(bool kinks = true) {
  GraphBuilder b;
  const Initializer uniform{.kind = Initializer::Kind::kUniform, .bound = 0.5F};
  ValueId x = b.linear("dense_1", b.flatten("flat", b.input("input", {2, 6, 6})), 12);
  std::vector<float> mask(12, 1.0F);
  for (std::size_t i = 0; i < mask.size(); i += 3) mask[i] = -2.0F;
  const ValueId constant = b.constant("mask", {12}, mask);
  x = b.mul("masked", x, constant);
  x = b.add("embed", x, b.flatten("table_flat", b.parameter("table", {1, 3, 4}, uniform)));
  x = kinks ? b.relu("relu", x) : b.gelu("gelu", x);
  x = b.mul("gate", x, b.apply("same", "Identity", {b.parameter("gain", {12}, uniform)}));
  x = b.add("again", x, b.apply("same_mask", "Identity", {constant}));
  x = b.transpose("turned", b.reshape("planes", x, {0, 3, 4}), {0, 2, 1});
  const std::vector<ValueId> parts = b.split("parts", x, {1, 1, 2}, 1);
  const ValueId choice =
      b.apply("below", "Less", {parts[0], b.constant("bound", {1}, std::vector<float>{0.1F})});
  x = b.where("chosen", choice, parts[0], b.slice("last", parts[2], 1, -1, -3, -2));
  x = b.concat("joined", {x, parts[2], x, b.cast("flags", choice, DType::kF32)}, 1);
  if (kinks) x = b.apply("largest", "Max", {x, b.parameter("floor", {3}, uniform)});
  x = b.gather("taken", x, b.constant("order", {4}, std::vector<std::int64_t>{2, 0, -1, 2}), 1);
  x = b.apply("padded", "Pad", {x},
              {{"pads", std::vector<std::int64_t>{0, 1, 0, 0, 0, 1}}, {"mode", std::string("edge")}});
  x = b.cast("single", b.cast("double", x, DType::kF64), DType::kF32);
  x = b.reshape("rows", b.apply("lower", "Trilu", {x}, {{"upper", std::int64_t{0}}, {"k", std::int64_t{1}}}),
                {0, -1});
  x = b.linear("dense_2", x, 5);
  Graph graph = b.finish(x);
  add_loss(graph, "cross_entropy");
  return graph;
}

// Recurrent layers of every kind, in both directions, whose states other layers begin with; between some of
// them the samples come first, where a stage may begin.
inline Graph recurrent_model(std::int64_t hidden = 32) {
  GraphBuilder b;
  const ValueId input = b.reshape("rows", b.input("input", {2, 6, 6}), {0, 6, 12});
  ValueId x = b.transpose("steps_1", input, {1, 0, 2});
  const std::vector<ValueId> lstm = b.recurrent("lstm", "LSTM", x, hidden);
  x = b.transpose("samples_1", lstm[0], {1, 0, 2});
  x = b.transpose("steps_2", b.dropout("drop", x, 0.25F), {1, 0, 2});
  const std::vector<ValueId> states{lstm[1], lstm[2]};
  const ValueId back =
      b.recurrent("lstm", "LSTM", x, hidden, {.layer = 1, .reverse = true, .initial = states})[0];
  x = b.transpose("samples_2", b.concat("both", {x, back}, 2), {1, 0, 2});
  x = b.transpose("steps_3", b.gelu("gelu", x), {1, 0, 2});
  const std::vector<ValueId> gru = b.recurrent("gru", "GRU", x, hidden / 2, {.reverse = true});
  const ValueId plain = b.recurrent("rnn", "RNN", gru[0], hidden / 2, {.bias = false})[1];
  Graph graph = b.finish(b.linear("head", b.concat("joined", {plain, gru[1], states[1]}, 1), 5));
  add_loss(graph, "cross_entropy");
  return graph;
}

// Convolutions of many channels, which run on images in blocks where the processor gains from it: branches
// of blocked and plain uses, an edge that skips many ops.
inline Graph image_model() {
  GraphBuilder b;
  ValueId x = b.relu("stem_relu", b.batch_norm("stem_bn", b.conv2d("stem", b.input("input", {2, 6, 6}), 32)));
  const ValueId skipped = x;
  ValueId y = b.relu("relu_1", b.batch_norm("bn_1", b.conv2d("conv_1", x, 32)));
  y = b.add("gated", b.conv2d("conv_2", y, 32), b.sigmoid("gate", x));
  x = b.relu("relu_2", b.add("sum_1", y, x));
  x = b.add("sum_2", b.conv2d("conv_3", b.sigmoid("squash", x), 32), x);
  x = b.max_pool2d("pool", b.add("sum_3", x, skipped), 2, 2);
  x = b.conv2d("conv_4", b.dropout("drop", x, 0.25F), 48);
  x = b.linear("dense", b.flatten("flat", b.relu("relu_3", x)), 5);
  Graph graph = b.finish(x);
  add_loss(graph, "cross_entropy");
  return graph;
}

inline Graph tied_model_with_loss() {
  Graph graph = tied_model({2, 6, 6}, 5);
  add_loss(graph, "cross_entropy");
  return graph;
}

}  // namespace rookery
