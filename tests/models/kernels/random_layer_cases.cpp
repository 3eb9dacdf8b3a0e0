// Random cases of the operators that layers are made of: windows, products, norms, attention, recurrence.
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

}  // namespace

const std::map<std::string, RandomOp>& random_layer_ops() {
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
      {"Attention", {attention, 5e-5}},
      {"LSTM", recurrent("LSTM")},
      {"GRU", recurrent("GRU")},
      {"RNN", recurrent("RNN")},
  };
  return table;
}

}  // namespace rookery::kernel_tests
