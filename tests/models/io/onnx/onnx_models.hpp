// Models that the tests of ONNX files write.
#pragma once

#include "models/base/rng.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/graph/state/state_dict.hpp"

namespace rookery {

// Every layer that files know, some with more than one user of a value.
inline Graph small_model() {
  GraphBuilder build;
  const ValueId x = build.input("x", {2, 6, 6});
  const ValueId conv = build.conv2d("conv", x, 4);
  const ValueId bn = build.batch_norm("bn_1", build.relu("relu", conv));
  const ValueId skip = build.add("skip", bn, conv);
  const ValueId grouped =
      build.conv2d("grouped", skip, 8, {.stride = 2, .padding = 1, .groups = 2, .bias = false});
  const ValueId pooled = build.max_pool2d("pool", grouped, 3, 1);
  const ValueId dropped = build.dropout("dropout", pooled, 0.25F);
  const ValueId flat = build.flatten("flatten", dropped);
  const ValueId dense = build.linear("dense", flat, 5);
  const ValueId normal = build.batch_norm("bn_2", dense);
  return build.finish(build.softmax("softmax", normal));
}

// Sliding windows in one and two dimensions.
inline Graph window_model() {
  using Integers = std::vector<std::int64_t>;
  GraphBuilder build;
  ValueId x = build.conv2d("conv", build.input("x", {2, 12, 12}), 6, {.dilation = 2, .groups = 2});
  x = build.avg_pool2d("average", x, 3, 2, 1);
  x = build.apply("ceil", "MaxPool", {x},
                  {{"kernel_shape", Integers{2, 3}},
                   {"dilations", Integers{2, 1}},
                   {"ceil_mode", std::int64_t{1}},
                   {"strides", Integers{1, 2}}});
  x = build.apply("same", "AveragePool", {x},
                  {{"kernel_shape", Integers{2, 2}}, {"auto_pad", std::string("SAME_LOWER")}});
  x = build.conv_transpose2d("up", x, 6, {.kernel = 3, .output_padding = 1, .groups = 2});
  ValueId line = build.global_avg_pool("global", build.conv2d("last", x, 4));
  line = build.linear("dense", build.flatten("flatten", line), 5);
  return build.finish(line);
}

// The same of series.
inline Graph series_model() {
  using Integers = std::vector<std::int64_t>;
  const Initializer uniform{.kind = Initializer::Kind::kUniform, .bound = 0.5F};
  GraphBuilder build;
  ValueId x = build.conv1d("conv_1", build.input("x", {3, 40}), 8, {.kernel = 5, .stride = 2});
  x = build.relu("relu", build.batch_norm("bn_1", x));
  x = build.max_pool1d("pool", x, 3, 2, 1);
  x = build.conv1d("conv_2", x, 8, {.dilation = 3, .groups = 8, .bias = false});
  x = build.avg_pool1d("average", x, 2, 2);
  x = build.conv_transpose1d("up", x, 6, {.kernel = 4, .padding = 1, .dilation = 2, .bias = false});
  x = build.apply(
      "sized", "ConvTranspose", {x, build.parameter("filter", {6, 4, 3}, uniform)},
      {{"strides", Integers{2}}, {"output_shape", Integers{19}}, {"auto_pad", std::string("SAME_UPPER")}});
  x = build.global_avg_pool("global", x);
  return build.finish(build.linear("dense", build.flatten("flatten", x), 5));
}

// Every function of one or two numbers that files know.
inline Graph elementwise_model() {
  GraphBuilder build;
  const Initializer uniform{.kind = Initializer::Kind::kUniform, .bound = 0.5F};
  ValueId x = build.linear("dense_1", build.input("x", {4}), 6);
  x = build.add("embed", x, build.parameter("position", {1, 6}, uniform));
  const ValueId branch = x;
  x = build.leaky_relu("leaky", build.elu("elu", x, 0.5F), 0.1F);
  x = build.apply("selu", "Selu", {x}, {{"gamma", 1.5F}});
  x = build.apply("prelu", "PRelu", {x, build.parameter("slope", {1}, uniform)});
  x = build.sub("sub", build.silu("silu", x), build.tanh("tanh", branch));
  x = build.scale("scale", x, {6});
  x = build.linear("dense_2", build.apply("erf", "Erf", {x}), 6);
  x = build.apply("swish", "HardSwish", {x});
  x = build.apply("clip_1", "Clip", {x}, {{"max", 2.0F}});
  x = build.apply("hard", "HardSigmoid", {x}, {{"alpha", 0.5F}, {"beta", 0.25F}});
  x = build.mul("mul", x, build.apply("exp", "Exp", {build.parameter("gain", {6}, uniform)}));
  x = build.apply("clip_2", "Clip", {build.apply("neg", "Neg", {x})}, {{"min", -3.0F}, {"max", 3.0F}});
  x = build.add("wave", build.apply("sin", "Sin", {x}), build.apply("cos", "Cos", {x}));
  const ValueId size = build.apply("abs", "Abs", {x});
  const ValueId below = build.apply("softplus", "Softplus", {build.apply("clip_3", "Clip", {size})});
  x = build.div("div", x, build.apply("sqrt", "Sqrt", {below}));
  x = build.add("sum", x, build.apply("log", "Log", {build.apply("pow", "Pow", {below, size})}));
  return build.finish(build.linear("dense_3", x, 5));
}

// Constants, and what moves elements.
inline Graph moving_model() {
  GraphBuilder build;
  const Initializer uniform{.kind = Initializer::Kind::kUniform, .bound = 0.5F};
  ValueId x = build.linear("dense_1", build.input("x", {4}), 6);
  const ValueId mask = build.constant("mask", {6}, std::vector<float>{1, -2, 3, 0.5F, 0.25F, -1});
  x = build.add("embed", build.mul("masked", x, mask),
                build.flatten("flat", build.parameter("table", {1, 2, 3}, uniform)));
  x = build.add("again", x, mask);
  using Integers = std::vector<std::int64_t>;
  x = build.transpose("turned", build.reshape("planes", x, {0, 3, 2}), {0, 2, 1});
  x = build.squeeze("squeezed", build.unsqueeze("unsqueezed", x, {1, -1}), {1, 4});
  const std::vector<ValueId> parts = build.split("parts", x, {1, 2}, 2);
  const ValueId turned = build.slice("back", parts[1], 2, -1, -3, -1);
  x = build.concat("joined", {parts[1], turned, parts[0]}, -1);
  const std::vector<ValueId> halves = build.split("halves", x, {3, 2}, 2);
  x = build.apply("least", "Min", {halves[0], build.full("most_value", {1}, 0.75F)});
  x = build.apply("largest", "Max", {x, build.full("least_value", {3}, -0.75F), halves[0]});
  const ValueId below = build.apply("below", "Less", {x, build.full("half", {1}, 0.5F)});
  const ValueId above = build.apply("above", "GreaterOrEqual", {x, build.full("third", {1}, -0.25F)});
  const ValueId either = build.apply("either", "Or", {above, build.apply("not", "Not", {below})});
  x = build.where("where", build.apply("both", "And", {below, either}), x,
                  build.gather("taken", x, build.range("order", 2, -1, -1), 2));
  const ValueId places = build.apply("expanded", "Expand", {build.constant("places", {1, 1}, Integers{2})},
                                     {{"shape", Integers{1, 2, 3}}});
  const ValueId fewer = build.sub("fewer", places, build.range("one", 1, 2));
  x = build.mul("scaled", x, build.cast("number", fewer, DType::kF32));
  x = build.apply("tiled", "Tile", {x}, {{"repeats", Integers{1, 1, 2}}});
  x = build.apply("mirrored", "Pad", {x},
                  {{"pads", Integers{0, 0, 2, 0, 0, 0}}, {"mode", std::string("reflect")}});
  x = build.apply("cut", "Pad", {x}, {{"pads", Integers{0, 0, -1, 0, 0, -1}}, {"constant_value", 0.5F}});
  const ValueId nothing = build.mul("nothing", x, build.full("zero", {}, 0));
  x = build.apply("firsts", "GatherElements", {x, build.cast("place", nothing, DType::kI64)},
                  {{"axis", std::int64_t{2}}});
  x = build.apply("running", "CumSum", {x}, {{"axis", std::int64_t{-1}}, {"reverse", std::int64_t{1}}});
  const ValueId point = build.cast("point", build.slice("column", nothing, 2, 0, 1), DType::kI64);
  x = build.apply("points", "GatherND", {x, point}, {{"batch_dims", std::int64_t{1}}});
  const ValueId planes = build.transpose("planes_first", x, {1, 0, 2});
  const ValueId plane = build.slice("plane", planes, 0, 0, 1);
  x = build.apply("written", "ScatterND", {planes, build.constant("second", {1, 1}, Integers{1}), plane});
  x = build.apply("added", "ScatterND", {x, build.constant("both_of", {2, 1}, Integers{-1, -1}), planes},
                  {{"reduction", std::string("add")}});
  x = build.transpose("samples_first", x, {1, 0, 2});
  x = build.apply("lower", "Trilu", {x}, {{"k", std::int64_t{1}}, {"upper", std::int64_t{0}}});
  x = build.upsample("larger", build.reshape("image", x, {0, 1, 2, 6}), 1.5F, "bilinear");
  x = build.reshape("rows", build.upsample("larger_yet", x, 2, "nearest"), {0, -1});
  return build.finish(build.linear("dense_2", x, 5));
}

// A model of what transformers are made of, and of every other operator that is written as a function.
inline Graph transformer_model() {
  GraphBuilder build;
  const auto matrix = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
    return build.parameter(name, {rows, columns}, {.kind = Initializer::Kind::kUniform, .bound = 0.5F});
  };
  const ValueId x = build.input("x", {6, 12});
  const ValueId normal = build.layer_norm("ln_1", x);
  const ValueId qkv = build.matmul("qkv", normal, matrix("qkv.weight", 12, 36));
  ValueId y = build.self_attention("packed", qkv, {.heads = 3, .is_causal = true, .dropout = 0.25F});
  y = build.add("skip", x, build.matmul("out", y, matrix("out.weight", 12, 12)));
  y = build.add("sum_1", y, build.attention("cross", y, x, normal, {.heads = 2}));
  std::vector<float> distances;
  Tensor seen(DType::kBool, {6, 6});
  for (int i = 0; i < 36; ++i) {
    const int ahead = i % 6 - i / 6;
    distances.push_back(0.25F * static_cast<float>(ahead));
    seen.as<bool>()[i] = i % 5 != 0 && i / 6 != 4;  // row 4 sees nothing
  }
  const ValueId bias = build.constant("distances", {1, 1, 6, 6}, distances);
  y = build.attention("biased", y, x, y, {.heads = 4, .mask = bias});
  const ValueId mask = build.constant("seen", std::move(seen));
  y = build.add("sum_2", y, build.attention("masked", y, y, x, {.heads = 1, .mask = mask}));
  y = build.gelu("gelu", build.gelu("gelu_tanh", y, "tanh"));
  y = build.group_norm("group", y, 2);
  y = build.apply("instance", "InstanceNormalization",
                  {y, build.parameter("instance.weight", {6}, {.kind = Initializer::Kind::kOnes}),
                   build.parameter("instance.bias", {6})},
                  {{"epsilon", 1e-3F}});
  const ValueId most = build.apply("most", "ReduceMax", {y}, {{"axes", std::vector<std::int64_t>{-1}}});
  y = build.sub("less", y, most);
  for (const char* norm : {"ReduceL1", "ReduceL2"}) {
    const ValueId length = build.apply(norm, norm, {y}, {{"axes", std::vector<std::int64_t>{-1}}});
    y = build.div(std::string(norm) + ".of_length", y, length);
  }
  const auto rows = std::vector<std::int64_t>{1};
  y = build.apply("pool", "ReduceMean", {y}, {{"axes", rows}, {"keepdims", std::int64_t{0}}});
  return build.finish(build.apply("log_softmax", "LogSoftmax", {build.linear("dense", y, 5)}));
}

// Every form of a recurrent layer, one on top of the other, each starting where the one before ended.
inline Graph recurrent_model() {
  constexpr std::int64_t kHidden = 3;
  GraphBuilder build;
  const ValueId input = build.input("x", {5, 4});
  ValueId x = build.transpose("steps_first", input, {1, 0, 2});
  ValueId state = build.reshape("first", build.slice("first_step", input, 1, 0, 1), {0, 4});
  state = build.linear("state", state, kHidden);
  int layer = 0;
  const auto add = [&](const std::string& type, RecurrentOptions options, bool has_states) {
    options.layer = layer++;
    if (has_states) options.initial = {state};
    if (has_states && type == "LSTM")
      options.initial.push_back(build.tanh("cell_" + std::to_string(layer), state));
    const std::vector<ValueId> made = build.recurrent("rnn", type, x, kHidden, options);
    x = made[0];
    state = build.add("state_" + std::to_string(layer), made[1], made.back());
  };
  for (const bool reverse : {false, true}) {
    for (const bool bias : {false, true}) {
      for (const bool has_states : {false, true}) {
        const RecurrentOptions plain{.reverse = reverse, .bias = bias};
        for (const char* type : {"LSTM", "GRU", "RNN"}) add(type, plain, has_states);
        RecurrentOptions other = plain;
        other.attributes = {{"gates", std::string("iofc")}};
        add("LSTM", other, has_states);
        other.attributes = {{"gates", std::string("zrh")}, {"linear_before_reset", std::int64_t{0}}};
        add("GRU", other, has_states);
        other.attributes = {{"function", std::string("Relu")}};
        add("RNN", other, has_states);
        // Where the samples come first a stage may begin.
        const std::string after = std::to_string(layer);
        x = build.tanh("bend_" + after, build.transpose("samples_" + after, x, {1, 0, 2}));
        x = build.transpose("steps_" + after, x, {1, 0, 2});
      }
    }
  }
  x = build.reshape("rows", build.transpose("samples_first", x, {1, 0, 2}), {0, -1});
  return build.finish(build.linear("dense", build.concat("joined", {x, state}, 1), 5));
}

// Attention over heads that lie apart.
inline Graph heads_model() {
  GraphBuilder build;
  const ValueId x = build.input("x", {2, 6, 4});
  const ValueId y = build.apply("apart", "Attention", {x, build.gelu("gelu", x), x}, {{"scale", 2.0F}});
  const ValueId z = build.apply("causal", "Attention", {x, y, y}, {{"is_causal", std::int64_t{1}}});
  return build.finish(build.linear("dense", build.flatten("flatten", z), 5));
}

// Its state with running statistics as after some training.
inline StateDict trained_state(const Graph& graph) {
  StateDict state = initial_state(graph, 7);
  for (auto& [name, tensor] : state) {
    CounterRng rng(rng_key(1, name), 0);
    if (name.ends_with("num_batches_tracked")) tensor.as<std::int64_t>()[0] = 170;
    if (!name.starts_with("bn_") || tensor.type().dtype != DType::kF32) continue;
    for (float& element : tensor.as<float>()) element = 0.5F + rng.next_float();
  }
  return state;
}

}  // namespace rookery
