// Random cases of functions of numbers, reductions and losses, and all of them together.
#include "tests/models/kernels/random_cases.hpp"

namespace rookery::kernel_tests {
namespace {

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

const std::map<std::string, RandomOp>& number_ops() {
  static const std::map<std::string, RandomOp> table{
      {"Relu", unary()},
      {"Softmax", {softmax, 5e-5}},
      {"LogSoftmax", {softmax, 5e-5}},
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
    std::map<std::string, RandomOp> joined = number_ops();
    for (const auto* more : {&random_layer_ops(), &random_tensor_ops()})
      joined.insert(more->begin(), more->end());
    return joined;
  }();
  return all;
}

OpCase random_op_case(const std::string& type, Draw& draw) {
  RandomCase drawn = random_ops().at(type).draw(draw);
  std::vector<Tensor> inputs;
  std::vector<TensorType> types;
  Op op{.name = type, .type = type, .inputs = {}, .outputs = {}, .attributes = drawn.attributes};
  for (std::optional<Tensor>& input : drawn.inputs) {
    op.inputs.push_back(static_cast<ValueId>(types.size()));
    types.push_back(input.value().type());
    inputs.push_back(std::move(*input));
  }
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

}  // namespace rookery::kernel_tests
