#include "tests/models/kernels/random_cases.hpp"

namespace rookery::kernel_tests {
namespace {

// A legal window over x; pads are those of a pooling op (smaller than the kernel).
Attributes draw_window(Draw& draw, const Shape& x, std::vector<std::int64_t> kernel, bool dilates) {
  const std::size_t axes = kernel.size();
  Attributes attributes{{"kernel_shape", kernel}};
  if (draw.chance(0.7)) attributes["strides"] = draw.integers(axes, 1, 3);
  std::vector<std::int64_t> dilations(axes, 1);
  if (dilates && draw.chance(0.4)) attributes["dilations"] = dilations = draw.integers(axes, 1, 2);
  std::vector<std::int64_t> missing(axes);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::int64_t extent = (kernel[axis] - 1) * dilations[axis] + 1;
    missing[axis] = std::max<std::int64_t>(0, extent - x[static_cast<int>(axis) + 2]);
  }
  const bool fits = std::ranges::all_of(missing, [](std::int64_t elements) { return elements == 0; });
  const auto auto_pad = draw.one_of<std::string>({"NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"});
  if (auto_pad != "NOTSET" && (fits || auto_pad != "VALID")) {
    attributes["auto_pad"] = auto_pad;
    return attributes;
  }
  std::vector<std::int64_t> pads(2 * axes);
  const bool symmetric = draw.chance(0.5);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::int64_t most = symmetric ? kernel[axis] / 2 : kernel[axis] - 1;
    pads[axis] = std::max(missing[axis] - missing[axis] / 2, draw.integer(0, most));
    pads[axis + axes] =
        symmetric ? pads[axis] : std::max(missing[axis] - missing[axis] / 2, draw.integer(0, most));
  }
  if (!fits || draw.chance(0.7)) attributes["pads"] = pads;
  return attributes;
}

// [n, c, l] or [n, c, h, w].
Shape draw_image(Draw& draw, std::int64_t channels, std::int64_t least, std::int64_t most) {
  const Shape line{draw.integer(1, 3), channels, draw.integer(least, most)};
  return draw.chance(0.3) ? line : Shape{line[0], channels, line[2], draw.integer(least, most)};
}

std::size_t axes_of(const Shape& image) {
  return static_cast<std::size_t>(image.rank()) - 2;
}

RandomCase conv(Draw& draw) {
  const std::int64_t groups = draw.one_of<std::int64_t>({1, 1, 2, 3});
  const std::int64_t in = groups * draw.integer(1, 4);
  const std::int64_t out = groups * draw.integer(1, 5);
  const Shape x = draw_image(draw, in, 3, 9);
  const auto kernel = draw.integers(axes_of(x), 1, 4);
  RandomCase test{.attributes = draw_window(draw, x, kernel, true), .inputs = {}};
  if (groups > 1) test.attributes["group"] = groups;
  if (draw.chance(0.3)) test.attributes.erase("kernel_shape");
  std::vector<std::int64_t> weight{out, in / groups};
  weight.insert(weight.end(), kernel.begin(), kernel.end());
  test.inputs = inputs_of(draw.floats(x), draw.floats(Shape(weight)));
  if (draw.chance(0.6)) test.inputs.emplace_back(draw.floats({out}));
  return test;
}

RandomCase conv_transpose(Draw& draw) {
  const std::int64_t groups = draw.one_of<std::int64_t>({1, 1, 2, 3});
  const std::int64_t in = groups * draw.integer(1, 4);
  const std::int64_t out = groups * draw.integer(1, 5);
  const Shape x = draw_image(draw, in, 2, 6);
  const std::size_t axes = axes_of(x);
  const auto kernel = draw.integers(axes, 2, 4);
  std::vector<std::int64_t> strides(axes, 1), dilations(axes, 1), extra(axes), pads(2 * axes);
  RandomCase test{.attributes = {{"kernel_shape", kernel}}, .inputs = {}};
  if (draw.chance(0.7)) test.attributes["strides"] = strides = draw.integers(axes, 1, 3);
  if (draw.chance(0.4)) test.attributes["dilations"] = dilations = draw.integers(axes, 1, 3);
  if (groups > 1) test.attributes["group"] = groups;
  const auto all = [&](auto number) {
    std::vector<std::int64_t> numbers(axes);
    for (std::size_t axis = 0; axis < axes; ++axis) numbers[axis] = number(axis);
    return numbers;
  };
  const auto step = [&](std::size_t axis) { return std::max(strides[axis], dilations[axis]); };
  if (draw.chance(0.4)) {
    extra = all([&](std::size_t axis) { return draw.integer(0, step(axis) - 1); });
    test.attributes["output_padding"] = extra;
  }
  const auto auto_pad = draw.one_of<std::string>({"NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"});
  if (auto_pad != "NOTSET") test.attributes["auto_pad"] = auto_pad;
  const auto reach = [&](std::size_t axis) {
    return strides[axis] * (x[static_cast<int>(axis) + 2] - 1) + (kernel[axis] - 1) * dilations[axis] + 1;
  };
  if (draw.chance(0.3)) {
    test.attributes["output_shape"] =
        all([&](std::size_t axis) { return draw.integer(reach(axis) / 2, reach(axis) + step(axis) - 1); });
  } else if (auto_pad == "NOTSET" && draw.chance(0.7)) {
    const bool symmetric = draw.chance(0.5);
    for (std::size_t axis = 0; axis < axes; ++axis) {
      pads[axis] = draw.integer(0, kernel[axis] / 2);
      pads[axis + axes] = symmetric ? pads[axis] : draw.integer(0, kernel[axis] / 2);
    }
    // Something must be left.
    const auto size = [&](std::size_t axis) { return reach(axis) - pads[axis] - pads[axis + axes]; };
    if (size(0) > 0 && size(axes - 1) > 0) test.attributes["pads"] = pads;
  }
  std::vector<std::int64_t> weight{in, out / groups};
  weight.insert(weight.end(), kernel.begin(), kernel.end());
  test.inputs = inputs_of(draw.floats(x), draw.floats(Shape(weight)));
  if (draw.chance(0.6)) test.inputs.emplace_back(draw.floats({out}));
  return test;
}

RandomCase max_pool(Draw& draw) {
  const bool many = draw.chance(0.15);  // so many elements in a window that a byte cannot count them
  const Shape line{draw.integer(1, 3), draw.integer(1, 4), 280};
  const Shape plane{line[0], line[1], 18, 19};
  const Shape x = !many ? draw_image(draw, line[1], 4, 9) : draw.chance(0.5) ? line : plane;
  const auto kernel = !many ? draw.integers(axes_of(x), 2, 4)
                            : std::vector<std::int64_t>(axes_of(x), x.rank() == 3 ? 270 : 17);
  RandomCase test{.attributes = draw_window(draw, x, kernel, !many),
                  .inputs = inputs_of(draw.chance(0.5) ? draw.quarters(x) : draw.floats(x))};
  if (draw.chance(0.4)) test.attributes["ceil_mode"] = draw.integer(0, 1);
  return test;
}

RandomCase average_pool(Draw& draw) {
  const Shape x = draw_image(draw, draw.integer(1, 4), 4, 20);
  RandomCase test{.attributes = draw_window(draw, x, draw.integers(axes_of(x), 1, 4), false),
                  .inputs = inputs_of(draw.floats(x))};
  if (draw.chance(0.4)) test.attributes["ceil_mode"] = draw.integer(0, 1);
  if (draw.chance(0.6)) test.attributes["count_include_pad"] = draw.integer(0, 1);
  return test;
}

RandomCase global_average_pool(Draw& draw) {
  return {.attributes = {}, .inputs = inputs_of(draw.floats(draw_image(draw, draw.integer(1, 4), 1, 20)))};
}

RandomCase gemm(Draw& draw) {
  const std::int64_t m = draw.integer(1, 20);
  const std::int64_t n = draw.integer(1, 40);
  const std::int64_t k = draw.integer(1, 30);
  const bool trans_a = draw.chance(0.3);
  const bool trans_b = draw.chance(0.7);
  RandomCase test{.attributes = {{"transA", std::int64_t{trans_a}}, {"transB", std::int64_t{trans_b}}},
                  .inputs = inputs_of(draw.floats(trans_a ? Shape{k, m} : Shape{m, k}),
                                      draw.floats(trans_b ? Shape{n, k} : Shape{k, n}))};
  if (draw.chance(0.3)) test.attributes["alpha"] = draw.one_of<float>({-1.5F, 0.25F});
  if (draw.chance(0.3)) test.attributes["beta"] = draw.one_of<float>({2, 0.5F});
  if (draw.chance(0.7)) test.inputs.emplace_back(draw.floats({n}));
  return test;
}

RandomCase batch_normalization(Draw& draw) {
  Shape x = draw.shape(2, 4, 5);
  x[0] = draw.integer(4, 9);  // of two samples most of the gradient cancels
  const Shape channels{x[1]};
  Attributes attributes;
  if (draw.chance(0.7)) attributes["epsilon"] = draw.one_of<float>({1e-5F, 1e-3F});
  if (draw.chance(0.7)) attributes["momentum"] = draw.one_of<float>({0.9F, 0.5F});
  return {.attributes = attributes,
          .inputs = inputs_of(draw.floats(x, -1, 3), draw.floats(channels, 0.5F, 2), draw.floats(channels),
                              draw.floats(channels), draw.floats(channels, 0.5F, 2)),
          .buffers = {3, 4}};
}

// Shapes of numpy.matmul: batches that broadcast, rows and columns of rank 1.
RandomCase matmul(Draw& draw) {
  const Shape batch = draw.shape(0, 3, 4);
  const auto operand = [&](std::int64_t rows, std::int64_t columns) {
    const Shape own = draw.chance(0.5) ? draw.broadcast_to(batch) : batch;
    std::vector<std::int64_t> dims(own.dims().begin(), own.dims().end());
    dims.insert(dims.end(), {rows, columns});
    return draw.floats(Shape(dims));
  };
  const std::int64_t m = draw.integer(1, 9);
  const std::int64_t n = draw.integer(1, 20);
  const std::int64_t k = draw.integer(1, 12);
  return {.attributes = {},
          .inputs = inputs_of(draw.chance(0.1) ? draw.floats({k}) : operand(m, k),
                              draw.chance(0.1) ? draw.floats({k}) : operand(k, n))};
}

RandomCase layer_normalization(Draw& draw) {
  Shape x = draw.shape(1, 4);
  x[-1] = draw.integer(4, 40);  // of two elements most of the gradient cancels
  const std::int64_t axis = draw.integer(-x.rank(), x.rank() - 1);
  const Shape normalized(x.dims().subspan(axis < 0 ? axis + x.rank() : axis));
  RandomCase test{.attributes = {{"axis", axis}},
                  .inputs = inputs_of(draw.floats(x, -1, 3), draw.floats(normalized, 0.5F, 2))};
  if (normalized.rank() == 1 && draw.chance(0.5)) test.attributes.erase("axis");
  if (draw.chance(0.7)) test.attributes["epsilon"] = draw.one_of<float>({1e-5F, 1e-3F});
  if (draw.chance(0.7)) test.inputs.emplace_back(draw.floats(normalized));
  return test;
}

// Of groups, or with one channel each where `instances`.
RandomOp group_normalization(bool instances) {
  return {[=](Draw& draw) {
            const std::int64_t groups = draw.integer(1, 4);
            const std::int64_t channels = groups * (instances ? 1 : draw.integer(1, 3));
            Shape x = draw.shape(3, 4, 5);
            x[1] = channels;
            x[-1] = draw.integer(4, 20);
            RandomCase test{.attributes = {},
                            .inputs = inputs_of(draw.floats(x, -1, 3), draw.floats({channels}, 0.5F, 2),
                                                draw.floats({channels}))};
            if (!instances) test.attributes["num_groups"] = groups;
            if (draw.chance(0.7)) test.attributes["epsilon"] = draw.one_of<float>({1e-5F, 1e-3F});
            return test;
          },
          5e-5};
}

// All three forms, with and without a mask; rows that see nothing among them.
RandomCase attention(Draw& draw) {
  const std::int64_t batch = draw.integer(1, 3);
  const std::int64_t heads = draw.integer(1, 3);
  const std::int64_t rows = draw.integer(2, 20);
  const std::int64_t depth = draw.one_of<std::int64_t>({1, 3, 4, 16, 21});
  const int form = static_cast<int>(draw.integer(0, 2));  // packed, [batch, rows, width], four dimensions
  const std::int64_t columns = form == 0 ? rows : draw.integer(2, 40);  // of one most cancels
  const std::int64_t width = form == 0 ? depth : draw.integer(1, 20);
  RandomCase test{.attributes = {}, .inputs = {}};
  if (form == 0) {
    test.inputs = inputs_of(draw.floats({batch, rows, 3 * heads * depth}), std::nullopt, std::nullopt);
  } else if (form == 1) {
    test.inputs =
        inputs_of(draw.floats({batch, rows, heads * depth}), draw.floats({batch, columns, heads * depth}),
                  draw.floats({batch, columns, heads * width}));
  } else {
    test.inputs =
        inputs_of(draw.floats({batch, heads, rows, depth}), draw.floats({batch, heads, columns, depth}),
                  draw.floats({batch, heads, columns, width}));
  }
  if (form < 2) test.attributes["num_heads"] = heads;
  if (draw.chance(0.5)) test.attributes["scale"] = draw.one_of<float>({0.5F, 0.125F, -0.25F});
  if (draw.chance(0.4)) test.attributes["is_causal"] = draw.integer(0, 1);
  if (draw.chance(0.6)) {
    const Shape shape = draw.broadcast_to({batch, heads, rows, columns});
    if (draw.chance(0.5)) {
      Tensor seen(DType::kBool, shape);
      for (bool& value : seen.as<bool>()) value = draw.chance(0.7);
      test.inputs.emplace_back(std::move(seen));
    } else {
      test.inputs.emplace_back(draw.floats(shape));
      test.buffers = {3};
    }
  }
  return test;
}

// A layer in one direction, with all forms of its attributes, biases and states.
RandomOp recurrent(const std::string& type) {
  return {[=](Draw& draw) {
            const std::int64_t gates = type == "LSTM" ? 4 : type == "GRU" ? 3 : 1;
            const std::int64_t steps = draw.integer(1, 5);
            const std::int64_t batch = draw.integer(1, 4);
            const std::int64_t input = draw.integer(1, 6);
            const std::int64_t hidden = draw.one_of<std::int64_t>({1, 3, 5, 16, 21, 32, 48});
            const auto weights = [&](const Shape& shape) { return draw.floats(shape, -0.5F, 0.5F); };
            RandomCase test{
                .attributes = {},
                .inputs = inputs_of(draw.floats({steps, batch, input}), weights({gates * hidden, input}),
                                    weights({gates * hidden, hidden}), std::nullopt, std::nullopt)};
            if (draw.chance(0.7)) {
              for (const std::size_t bias : {3U, 4U}) test.inputs[bias] = weights({gates * hidden});
            }
            const bool has_state = draw.chance(0.6);
            for (int state = 0; state < (type == "LSTM" ? 2 : 1); ++state)
              test.inputs.push_back(has_state ? std::optional(draw.floats({batch, hidden}, -1, 1))
                                              : std::nullopt);
            if (draw.chance(0.6))
              test.attributes["direction"] = draw.one_of<std::string>({"forward", "reverse"});
            if (type == "LSTM" && draw.chance(0.7))
              test.attributes["gates"] = draw.one_of<std::string>({"iofc", "ifco"});
            if (type == "GRU" && draw.chance(0.7))
              test.attributes["gates"] = draw.one_of<std::string>({"zrh", "rzh"});
            if (type == "GRU" && draw.chance(0.8))
              test.attributes["linear_before_reset"] = draw.integer(0, 1);
            if (type == "RNN" && draw.chance(0.7))
              test.attributes["function"] = draw.one_of<std::string>({"Tanh", "Relu"});
            test.outputs = type == "LSTM" ? 3 : 2;
            return test;
          },
          5e-5};
}

RandomCase reduction(Draw& draw) {
  const Shape x = draw.shape(0, 4);
  RandomCase test{.attributes = {},
                  .inputs = inputs_of(draw.chance(0.5) ? draw.quarters(x) : draw.floats(x))};
  std::vector<std::int64_t> axes;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (draw.chance(0.5)) axes.push_back(draw.chance(0.5) ? axis : axis - x.rank());
  }
  if (!axes.empty() || draw.chance(0.5)) test.attributes["axes"] = axes;
  if (draw.chance(0.6)) test.attributes["keepdims"] = draw.integer(0, 1);
  return test;
}

RandomCase softmax(Draw& draw) {
  const Shape x = draw.shape(1, 4);
  RandomCase test{.attributes = {}, .inputs = inputs_of(draw.floats(x, -5, 5))};
  if (draw.chance(0.7)) test.attributes["axis"] = draw.integer(-x.rank(), x.rank() - 1);
  return test;
}

RandomCase flatten(Draw& draw) {
  const Shape x = draw.shape(1, 4);
  RandomCase test{.attributes = {}, .inputs = inputs_of(draw.floats(x))};
  if (draw.chance(0.7)) test.attributes["axis"] = draw.integer(-x.rank(), x.rank());
  return test;
}

// A function of one number between `low` and `high`, and by default also of quarters(), with some of
// these attributes.
RandomOp unary(float low = -4, float high = 4,
               const std::map<std::string, std::vector<Attribute>>& choices = {}) {
  return {[=](Draw& draw) {
    RandomCase test;
    for (const auto& [key, values] : choices) {
      if (draw.chance(0.7)) test.attributes[key] = draw.one_of(values);
    }
    const Shape shape = draw.shape(0, 4);
    const bool has_kinks = low == -4;
    test.inputs =
        inputs_of(has_kinks && draw.chance(0.5) ? draw.quarters(shape) : draw.floats(shape, low, high));
    return test;
  }};
}

// A function of two numbers with broadcasting, the left one too where `both`; also of integers.
RandomOp binary(float low = -3, float high = 3, bool both = true, bool has_integers = false) {
  return {[=](Draw& draw) {
    const Shape whole = draw.shape(0, 4);
    const Shape left = both && draw.chance(0.5) ? draw.broadcast_to(whole) : whole;
    if (has_integers && draw.chance(0.2)) {
      const DType type = draw.chance(0.5) ? DType::kI64 : DType::kI32;
      return RandomCase{.attributes = {},
                        .inputs = inputs_of(draw.integers_of(left, -9, 9, type),
                                            draw.integers_of(draw.broadcast_to(whole), 1, 4, type))};
    }
    return RandomCase{
        .attributes = {},
        .inputs = inputs_of(draw.floats(left, low, high), draw.floats(draw.broadcast_to(whole), low, high))};
  }};
}

// A loss whose targets are numbers like the outputs; they have no gradient.
RandomCase distance(Draw& draw) {
  const Shape shape = draw.shape(1, 4);
  return {.attributes = {}, .inputs = inputs_of(draw.quarters(shape), draw.quarters(shape)), .buffers = {1}};
}

RandomCase one_hot(Draw& draw) {
  const std::int64_t rows = draw.integer(1, 9);
  const std::int64_t classes = draw.integer(2, 12);
  RandomCase test{.attributes = {},
                  .inputs = inputs_of(draw.floats({rows, classes}, -4, 4), draw.labels({rows}, classes))};
  if (draw.chance(0.3)) test.inputs.emplace_back(draw.labels({rows}, 1000));  // sample ids
  return test;
}

RandomCase bce_with_logits(Draw& draw) {
  const Shape shape = draw.shape(1, 4);
  RandomCase test{.attributes = {},
                  .inputs = inputs_of(draw.floats(shape, -6, 6), draw.floats(shape, 0, 1)),
                  .buffers = {1}};
  const auto weight = [&] { return static_cast<float>(draw.integer(0, 12)) / 4; };
  if (draw.chance(0.5)) {
    std::vector<float> weights(draw.chance(0.5) ? shape[-1] : 1);
    std::ranges::generate(weights, weight);
    test.attributes["pos_weight"] = weights;
  }
  return test;
}

// Labels that are ignored are in loss_traces_test.cpp.
RandomCase cross_entropy(Draw& draw) {
  const Shape shape = draw.shape(2, 4, 9);
  RandomCase test{.attributes = {}, .inputs = inputs_of(draw.floats(shape, -4, 4))};
  std::int64_t axis = shape.rank() - 1;
  if (draw.chance(0.5)) test.attributes["class_axis"] = axis = draw.integer(1, shape.rank() - 1);
  if (draw.chance(0.5)) test.attributes["label_smoothing"] = draw.one_of<float>({0.125F, 1.0F});
  if (draw.chance(0.4)) {
    test.inputs.emplace_back(draw.floats(shape, 0, 1));
    test.buffers = {1};
    return test;
  }
  std::vector<std::int64_t> positions(shape.dims().begin(), shape.dims().end());
  positions.erase(positions.begin() + axis);
  test.inputs.emplace_back(draw.labels(Shape(positions), shape[static_cast<int>(axis)]));
  if (draw.chance(0.3)) test.inputs.emplace_back(draw.labels({shape[0]}, 1000));
  return test;
}

const std::map<std::string, RandomOp>& other_ops() {
  static const std::map<std::string, RandomOp> table{
      {"Conv", {conv}},
      {"ConvTranspose", {conv_transpose}},
      {"MaxPool", {max_pool}},
      {"AveragePool", {average_pool}},
      {"GlobalAveragePool", {global_average_pool}},
      {"Gemm", {gemm}},
      {"BatchNormalization", {batch_normalization, 5e-5}},
      {"MatMul", {matmul}},
      {"LayerNormalization", {layer_normalization, 5e-5}},
      {"GroupNormalization", group_normalization(false)},
      {"InstanceNormalization", group_normalization(true)},
      {"Relu", unary()},
      {"Softmax", {softmax, 5e-5}},
      {"LogSoftmax", {softmax, 5e-5}},
      {"Attention", {attention, 5e-5}},
      {"LSTM", recurrent("LSTM")},
      {"GRU", recurrent("GRU")},
      {"RNN", recurrent("RNN")},
      {"ReduceL1", {reduction}},
      {"ReduceL2", {reduction}},
      {"ReduceMax", {reduction}},
      {"ReduceMean", {reduction}},
      {"ReduceSum", {reduction}},
      {"Flatten", {flatten}},
      {"Identity", unary()},
      {"Abs", unary()},
      {"Clip", unary(-4, 4, {{"min", {-1.0F, -0.5F}}, {"max", {0.25F, 2.0F}}})},
      {"Cos", unary()},
      {"Elu", unary(-4, 4, {{"alpha", {0.5F, 1.5F}}})},
      {"Erf", unary()},
      {"Exp", unary()},
      {"Gelu", unary(-4, 4, {{"approximate", {std::string("none"), std::string("tanh")}}})},
      {"HardSigmoid", unary(-4, 4, {{"alpha", {0.25F, 0.5F}}, {"beta", {0.25F, 0.5F}}})},
      {"HardSwish", unary(-5, 5)},  // at -3 PyTorch changed its mind
      {"LeakyRelu", unary(-4, 4, {{"alpha", {0.25F, -0.5F}}})},
      {"Log", unary(0.1F, 5)},
      {"Neg", unary()},
      {"Sigmoid", unary()},
      {"Sin", unary()},
      {"Selu", unary(-4, 4, {{"alpha", {0.5F, 1.5F}}, {"gamma", {1.0F, 2.0F}}})},
      {"Softplus", unary()},
      {"Sqrt", unary(0.1F, 5)},
      {"Tanh", unary()},
      {"Add", binary(-3, 3, true, true)},
      {"Sub", binary(-3, 3, true, true)},
      {"Mul", binary(-3, 3, true, true)},
      {"Div", binary(0.5F, 3, true, true)},
      {"Pow", binary(0.5F, 3)},
      {"PRelu", binary(-3, 3, false)},
      {"MseLoss", {[](Draw& draw) { return draw.chance(0.5) ? one_hot(draw) : distance(draw); }}},
      {"L1Loss", {distance}},
      {"MeanLoss", {distance}},
      {"BceWithLogitsLoss", {bce_with_logits}},
      {"CrossEntropyLoss", {cross_entropy}},
  };
  return table;
}

}  // namespace

const std::map<std::string, RandomOp>& random_ops() {
  static const std::map<std::string, RandomOp> all = [] {
    std::map<std::string, RandomOp> joined = other_ops();
    joined.insert(random_tensor_ops().begin(), random_tensor_ops().end());
    return joined;
  }();
  return all;
}

OpCase random_op_case(const std::string& type, Draw& draw) {
  RandomCase drawn = random_ops().at(type).draw(draw);
  std::vector<Tensor> inputs;
  std::vector<TensorType> types;
  for (std::optional<Tensor>& input : drawn.inputs) {
    types.push_back(input.value().type());
    inputs.push_back(std::move(*input));
  }
  const Op op{.name = type, .type = type, .inputs = {}, .outputs = {}, .attributes = drawn.attributes};
  return make_case(type, drawn.attributes, std::move(inputs), op_definition(type).infer(op, types));
}

const std::map<std::string, std::string>& without_random_cases() {
  static const std::map<std::string, std::string> table{
      {"Detach", "a view without a gradient; freeze_test.cpp and whole/rookery_export_test.py train with it"},
      {"Dropout", "its mask is our own definition; reference_test.cpp checks it word by word"},
      {"FromBlocked", "a copy of our own; blocked_test.cpp compares it"},
      {"ToBlocked", "as FromBlocked"},
  };
  return table;
}

Tensor Draw::integers_of(const Shape& shape, std::int64_t low, std::int64_t high, DType dtype) {
  Tensor tensor(dtype, shape);
  if (dtype == DType::kI32) {
    for (auto& value : tensor.as<std::int32_t>()) value = static_cast<std::int32_t>(integer(low, high));
  } else {
    for (auto& value : tensor.as<std::int64_t>()) value = integer(low, high);
  }
  return tensor;
}

Tensor Draw::bools(const Shape& shape) {
  Tensor tensor(DType::kBool, shape);
  for (bool& value : tensor.as<bool>()) value = chance(0.5);
  return tensor;
}

std::int64_t Draw::integer(std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
}

bool Draw::chance(double probability) {
  return std::bernoulli_distribution(probability)(random_);
}

std::vector<std::int64_t> Draw::integers(std::size_t count, std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> values(count);
  for (std::int64_t& value : values) value = integer(low, high);
  return values;
}

Shape Draw::shape(int least_rank, int most_rank, std::int64_t most) {
  return Shape(integers(static_cast<std::size_t>(integer(least_rank, most_rank)), 1, most));
}

Shape Draw::broadcast_to(const Shape& whole) {
  std::vector<std::int64_t> dims(whole.dims().begin(), whole.dims().end());
  for (std::int64_t& dim : dims) dim = chance(0.4) ? 1 : dim;
  dims.erase(dims.begin(), dims.begin() + integer(0, std::ssize(dims)));
  return Shape(dims);
}

Tensor Draw::floats(const Shape& shape, float low, float high) {
  return random_tensor(shape, random_, low, high);
}

Tensor Draw::quarters(const Shape& shape) {
  Tensor tensor(DType::kF32, shape);
  for (float& value : tensor.as<float>()) value = static_cast<float>(integer(-16, 16)) / 4;
  return tensor;
}

Tensor Draw::labels(const Shape& shape, std::int64_t classes) {
  Tensor labels(DType::kI64, shape);
  for (std::int64_t& label : labels.as<std::int64_t>()) label = integer(0, classes - 1);
  return labels;
}

}  // namespace rookery::kernel_tests
