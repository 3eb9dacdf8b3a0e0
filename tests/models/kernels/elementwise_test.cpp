// Functions of one and of two numbers against their definitions in double, over random shapes, and their
// gradients against central differences.
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include <cmath>
#include <functional>

#include "models/graph/ops/broadcast.hpp"
#include "tests/models/kernels/cases.hpp"

namespace rookery::kernel_tests {
namespace {

using Attributes = std::map<std::string, Attribute>;

struct Unary {
  std::string type;
  std::function<double(double)> definition;
  enum class Slope : std::uint8_t { kOfInput, kOfOutput, kLinear } slope = Slope::kOfInput;
  Attributes attributes = {};
  float low = -4, high = 4;
  std::vector<float> kinks = {};
};

std::vector<Unary> unary_ops() {
  using enum Unary::Slope;
  const auto normal = [](double x) { return 0.5 * (1 + std::erf(x / std::sqrt(2.0))); };
  const auto cut = [](double x) { return std::clamp(x, 0.0, 1.0); };
  const double scale = std::sqrt(2 / std::acos(-1.0));
  return {
      {"Abs", [](double x) { return std::abs(x); }, kOfInput, {}, -4, 4, {0}},
      {"Clip", [](double x) { return x; }, kOfInput},
      {"Clip", [](double x) { return std::max(x, -0.5); }, kOfInput, {{"min", -0.5F}}, -4, 4, {-0.5F}},
      {"Clip",
       [](double x) { return std::clamp(x, -1.0, 2.0); },
       kOfInput,
       {{"min", -1.0F}, {"max", 2.0F}},
       -4,
       4,
       {-1, 2}},
      {"Cos", [](double x) { return std::cos(x); }},
      {"Elu", [](double x) { return x > 0 ? x : std::expm1(x); }},
      {"Elu",
       [](double x) { return x > 0 ? x : 0.3F * std::expm1(x); },
       kOfInput,
       {{"alpha", 0.3F}},
       -4,
       4,
       {0}},
      {"Erf", [](double x) { return std::erf(x); }},
      {"Exp", [](double x) { return std::exp(x); }, kOfOutput},
      {"Gelu", [=](double x) { return x * normal(x); }},
      {"Gelu",
       [=](double x) { return 0.5 * x * (1 + std::tanh(scale * (x + 0.044715 * x * x * x))); },
       kOfInput,
       {{"approximate", std::string("tanh")}}},
      {"HardSigmoid", [=](double x) { return cut(0.2 * x + 0.5); }, kOfInput, {}, -4, 4, {-2.5F, 2.5F}},
      {"HardSigmoid",
       [=](double x) { return cut(0.4 * x + 0.3); },
       kOfInput,
       {{"alpha", 0.4F}, {"beta", 0.3F}},
       -4,
       4,
       {-0.75F, 1.75F}},
      {"HardSwish", [=](double x) { return x * cut(x / 6 + 0.5); }, kOfInput, {}, -4, 4, {-3, 3}},
      {"LeakyRelu", [](double x) { return x > 0 ? x : 0.01 * x; }, kOfInput, {}, -4, 4, {0}},
      {"LeakyRelu", [](double x) { return x > 0 ? x : -0.2 * x; }, kOfInput, {{"alpha", -0.2F}}, -4, 4, {0}},
      {"Log", [](double x) { return std::log(x); }, kOfInput, {}, 0.1F, 4},
      {"Neg", [](double x) { return -x; }, kLinear},
      {"Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, kOfOutput},
      {"Sin", [](double x) { return std::sin(x); }},
      {"Selu",
       [](double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x)); }},
      {"Selu",
       [](double x) { return 2 * (x > 0 ? x : 0.5 * std::expm1(x)); },
       kOfInput,
       {{"alpha", 0.5F}, {"gamma", 2.0F}},
       -4,
       4,
       {0}},
      {"Softplus", [](double x) { return std::log1p(std::exp(x)); }},
      {"Sqrt", [](double x) { return std::sqrt(x); }, kOfOutput, {}, 0.1F, 4},
      {"Tanh", [](double x) { return std::tanh(x); }, kOfOutput},
  };
}

OpCase unary_case(const Unary& unary, const Shape& shape, Random& random) {
  std::vector<Tensor> inputs;
  inputs.push_back(random_tensor(shape, random, unary.low, unary.high));
  for (float& x : inputs[0].as<float>()) {
    for (const float kink : unary.kinks) {
      if (std::abs(x - kink) < 0.03F) x = kink + 0.03F;
    }
  }
  return make_case(unary.type, unary.attributes, std::move(inputs), {{DType::kF32, shape}});
}

Tensor run_one(const OpCase& test) {
  auto results = run_on("eigen", test);
  if (!results) throw std::runtime_error("no kernel for " + describe(test));
  return std::move((*results)[0]);
}

std::size_t random_place(const Tensor& tensor, Random& random) {
  return std::uniform_int_distribution<std::size_t>(0, tensor.as<float>().size() - 1)(random);
}

// d sum(dy f(x)) / d input at a few places; `f` takes the inputs' elements in double.
template <typename Sum>
void check_slopes(const OpCase& forward, std::size_t input, const Tensor& gradient, Random& random, Sum sum) {
  ASSERT_EQ(forward.inputs[input].type(), gradient.type());
  std::vector<std::vector<double>> values;
  for (const Tensor& tensor : forward.inputs)
    values.emplace_back(tensor.as<float>().begin(), tensor.as<float>().end());
  for (int trial = 0; trial < 12; ++trial) {
    const std::size_t place = random_place(gradient, random);
    double& x = values[input][place];
    constexpr double kShift = 1e-5;
    const double before = x;
    x = before + kShift;
    const double above = sum(values);
    x = before - kShift;
    const double below = sum(values);
    x = before;
    const double slope = (above - below) / (2 * kShift);
    EXPECT_NEAR(gradient.as<float>()[place], slope, 1e-5 + 1e-4 * std::abs(slope))
        << "input " << input << " at " << before << " of " << describe(forward);
  }
}

TEST(Unary, IsItsDefinition) {
  Random random(31);
  for (const Unary& unary : unary_ops()) {
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{3, 5, 7}, Shape{1000}}) {
      const OpCase test = unary_case(unary, shape, random);
      Tensor expected(test.outputs[0]);
      std::ranges::transform(test.inputs[0].as<float>(), expected.as<float>().begin(),
                             [&](float x) { return static_cast<float>(unary.definition(x)); });
      EXPECT_LE(difference(expected, run_one(test)), 1e-6) << describe(test);
    }
  }
}

TEST(Unary, GradientsAreThoseOfCentralDifferences) {
  Random random(32);
  for (const Unary& unary : unary_ops()) {
    const OpCase forward = unary_case(unary, {6, 7}, random);
    const Tensor dy = random_tensor({6, 7}, random);
    std::vector<Tensor> inputs;
    inputs.push_back(dy.clone());
    const bool linear = unary.slope == Unary::Slope::kLinear;
    if (!linear) {
      inputs.push_back(unary.slope == Unary::Slope::kOfInput ? forward.inputs[0].clone() : run_one(forward));
    }
    const OpCase gradient =
        gradient_case(forward, unary.type + (linear ? "" : "Grad"), std::move(inputs), {forward.outputs[0]});
    check_slopes(forward, 0, run_one(gradient), random, [&](const auto& values) {
      double sum = 0;
      for (std::size_t i = 0; i < values[0].size(); ++i)
        sum += dy.as<float>()[i] * unary.definition(values[0][i]);
      return sum;
    });
  }
}

TEST(Unary, StaysFiniteFarOutAndShowsNaN) {
  for (const Unary& unary : unary_ops()) {
    if (unary.low > 0 || unary.type == "Exp") continue;
    std::vector<Tensor> inputs;
    inputs.emplace_back(DType::kF32, Shape{3});
    std::ranges::copy(std::vector<float>{-1000, 1000, std::numeric_limits<float>::quiet_NaN()},
                      inputs[0].as<float>().begin());
    const OpCase forward = make_case(unary.type, unary.attributes, std::move(inputs), {{DType::kF32, {3}}});
    const Tensor y = run_one(forward);
    for (std::size_t i = 0; i < 2; ++i) {
      const double x = forward.inputs[0].as<float>()[i];
      const double expected = unary.type == "Softplus" ? std::max(x, 0.0) : unary.definition(x);
      EXPECT_NEAR(y.as<float>()[i], expected, 1e-4) << describe(forward);
    }
    EXPECT_TRUE(std::isnan(y.as<float>()[2])) << describe(forward);
    if (unary.slope == Unary::Slope::kLinear) continue;
    std::vector<Tensor> of_gradient;
    of_gradient.emplace_back(DType::kF32, Shape{3});
    std::ranges::fill(of_gradient[0].as<float>(), 1.0F);
    of_gradient.push_back(unary.slope == Unary::Slope::kOfInput ? forward.inputs[0].clone() : y.clone());
    const OpCase gradient =
        gradient_case(forward, unary.type + "Grad", std::move(of_gradient), {forward.outputs[0]});
    const Tensor dx = run_one(gradient);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_LE(std::abs(dx.as<float>()[i]), 2.0F)
          << describe(gradient);  // NaN fails too  // Selu by its gamma here
    }
  }
}

struct Binary {
  std::string type;
  std::function<double(double, double)> definition;
  std::vector<bool> left_reads, right_reads;  // {A, B}: what the derivative is computed from
  float low = -3, high = 3;                   // of both; Div and Pow need more care
};

std::vector<Binary> binary_ops() {
  return {
      {"Add", std::plus<>(), {false, false}, {false, false}},
      {"Sub", std::minus<>(), {false, false}, {false, false}},
      {"Mul", std::multiplies<>(), {false, true}, {true, false}},
      {"Div", std::divides<>(), {false, true}, {true, true}, 0.5F, 3},
      {"Pow", [](double a, double b) { return std::pow(a, b); }, {true, true}, {true, true}, 0.5F, 3},
      {"PRelu", [](double a, double b) { return a > 0 ? a : a * b; }, {true, true}, {true, false}},
  };
}

OpCase binary_case(const Binary& binary, const Shape& a, const Shape& b, Random& random) {
  std::vector<Tensor> inputs;
  inputs.push_back(random_tensor(a, random, binary.low, binary.high));
  inputs.push_back(random_tensor(b, random, binary.low, binary.high));
  for (float& x : inputs[0].as<float>()) x += std::abs(x) < 0.01F ? 0.1F : 0.0F;  // PRelu's kink
  return make_case(binary.type, {}, std::move(inputs), {{DType::kF32, broadcast(a, b)}});
}

// Where element `i` of the whole comes from, axis by axis.
std::size_t source(std::size_t i, const Shape& whole, const Shape& operand) {
  std::int64_t place = 0;
  std::int64_t size = 1;
  auto rest = static_cast<std::int64_t>(i);
  for (int back = 1; back <= whole.rank(); ++back) {
    const std::int64_t index = rest % whole[-back];
    rest /= whole[-back];
    if (back > operand.rank()) continue;
    place += (operand[-back] == 1 ? 0 : index) * size;
    size *= operand[-back];
  }
  return static_cast<std::size_t>(place);
}

std::vector<double> define(const Binary& binary, const OpCase& test,
                           const std::vector<std::vector<double>>& values) {
  const Shape& whole = test.outputs[0].shape;
  std::vector<double> y(whole.elements());
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = binary.definition(values[0][source(i, whole, test.inputs[0].shape())],
                             values[1][source(i, whole, test.inputs[1].shape())]);
  }
  return y;
}

OpCase binary_gradient(const Binary& binary, const OpCase& forward, std::size_t operand, const Tensor& dy) {
  std::vector<Tensor> inputs;
  inputs.push_back(dy.clone());
  const auto& reads = operand == 0 ? binary.left_reads : binary.right_reads;
  for (std::size_t i = 0; i < 2; ++i)
    inputs.push_back(reads[i] ? forward.inputs[i].clone() : Tensor(TensorType{}));
  OpCase test = gradient_case(forward, forward.op.type + (operand == 0 ? "GradLeft" : "GradRight"),
                              std::move(inputs), {forward.inputs[operand].type()});
  for (std::size_t i = 0; i < 2; ++i) {
    if (!reads[i]) test.op.inputs[i + 1] = kNoValue;
  }
  return test;
}

void check_binary(const Binary& binary, const Shape& a, const Shape& b, Random& random) {
  const OpCase forward = binary_case(binary, a, b, random);
  std::vector<std::vector<double>> values;
  for (const Tensor& tensor : forward.inputs)
    values.emplace_back(tensor.as<float>().begin(), tensor.as<float>().end());
  Tensor expected(forward.outputs[0]);
  std::ranges::transform(define(binary, forward, values), expected.as<float>().begin(),
                         [](double y) { return static_cast<float>(y); });
  EXPECT_LE(difference(expected, run_one(forward)), 1e-6) << describe(forward);
  const Tensor dy = random_tensor(forward.outputs[0].shape, random);
  for (std::size_t operand = 0; operand < 2; ++operand) {
    const Tensor gradient = run_one(binary_gradient(binary, forward, operand, dy));
    check_slopes(forward, operand, gradient, random, [&](const auto& moved) {
      const std::vector<double> y = define(binary, forward, moved);
      double sum = 0;
      for (std::size_t i = 0; i < y.size(); ++i) sum += dy.as<float>()[i] * y[i];
      return sum;
    });
  }
}

TEST(Binary, ShapesThatModelsHave) {
  Random random(33);
  const std::vector<std::pair<Shape, Shape>> shapes{
      {{4, 5}, {4, 5}},
      {{4, 5}, {5}},
      {{4, 5}, {1}},
      {{4, 5}, {}},
      {{}, {3, 2}},
      {{}, {}},
      {{2, 3, 4, 5}, {3, 1, 1}},
      {{2, 6, 4}, {6, 4}},
      {{2, 6, 4}, {2, 1, 4}},
      {{7, 1}, {1, 9}},
      {{5, 1, 4, 1}, {3, 1, 6}},
      {{1, 1, 3}, {2, 1, 1}},
  };
  for (const Binary& binary : binary_ops()) {
    for (const auto& [a, b] : shapes) {
      if (binary.type == "PRelu" && broadcast(a, b) != a) continue;
      check_binary(binary, a, b, random);
    }
  }
}

RC_GTEST_PROP(BinaryProperty, AnyShapesThatBroadcast, ()) {
  const auto ops = binary_ops();
  const Binary& binary = ops[*rc::gen::inRange<std::size_t>(0, ops.size())];
  const auto whole = *rc::gen::resize(
      6, rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 5)));
  RC_PRE(whole.size() <= 6U);
  const auto operand = [&](bool may_shrink) {
    std::vector<std::int64_t> dims = whole;
    if (!may_shrink) return Shape(dims);
    for (std::int64_t& dim : dims) dim = *rc::gen::element(dim, std::int64_t{1});
    const auto missing = *rc::gen::inRange<std::size_t>(0, dims.size() + 1);
    dims.erase(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(missing));
    return Shape(dims);
  };
  Random random(*rc::gen::arbitrary<std::uint32_t>());
  const Shape a = operand(binary.type != "PRelu");
  const Shape b = operand(true);
  check_binary(binary, a, b, random);
  RC_ASSERT(!testing::Test::HasFailure());
}

// PyTorch's is infinite, but 0 where it has one function for what is made of a root: std, normalize, ...
TEST(Unary, TheRootOfZeroHasNoGradient) {
  std::vector<Tensor> inputs;
  for (int i = 0; i < 2; ++i) inputs.emplace_back(DType::kF32, Shape{2});
  std::ranges::fill(inputs[0].as<float>(), 1.0F);
  inputs[1].as<float>()[0] = 0;
  inputs[1].as<float>()[1] = 2;
  const Tensor dx = run_one(make_case("SqrtGrad", {}, std::move(inputs), {{DType::kF32, {2}}}));
  EXPECT_EQ(dx.as<float>()[0], 0);
  EXPECT_EQ(dx.as<float>()[1], 0.25F);
}

TEST(Binary, PowAtTheEdgesIsAsInPyTorch) {
  Random random(34);
  const Binary pow = binary_ops()[4];
  OpCase forward = binary_case(pow, {4}, {4}, random);
  std::ranges::copy(std::vector<float>{0, 0, -2, 0}, forward.inputs[0].as<float>().begin());
  std::ranges::copy(std::vector<float>{2, 0, 3, 0.5F}, forward.inputs[1].as<float>().begin());
  Tensor dy(DType::kF32, {4});
  std::ranges::fill(dy.as<float>(), 1.0F);
  const Tensor left = run_one(binary_gradient(pow, forward, 0, dy));
  const Tensor right = run_one(binary_gradient(pow, forward, 1, dy));
  EXPECT_EQ(left.as<float>()[0], 0);
  EXPECT_EQ(left.as<float>()[1], 0);
  EXPECT_EQ(left.as<float>()[2], 12);
  EXPECT_EQ(left.as<float>()[3], 0) << "but for what is infinite there";
  EXPECT_EQ(right.as<float>()[0], 0);
  EXPECT_EQ(right.as<float>()[1], 0);
  EXPECT_TRUE(std::isnan(right.as<float>()[2]));
}

}  // namespace
}  // namespace rookery::kernel_tests
