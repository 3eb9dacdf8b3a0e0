// Every back end, and the SIMD one on every instruction set of this processor, against the Eigen one, on
// every family of ops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "models/kernels/simd/loops/loops.hpp"
#include "tests/models/kernels/cases.hpp"
#include "tests/models/kernels/random_cases.hpp"

namespace rookery::kernel_tests {
namespace {

constexpr double kTolerance = 2e-5;

// A back end, and the loops that "simd" is to use.
struct Variant {
  std::string backend;
  std::string isa;
};

std::ostream& operator<<(std::ostream& out, const Variant& variant) {
  return out << variant.backend << " " << variant.isa;
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const std::string& backend : backends()) {
    if (backend != "simd") {
      all.push_back({backend, ""});
      continue;
    }
    for (const char* const* isa = simd::loop_names(); *isa != nullptr; ++isa) all.push_back({backend, *isa});
  }
  return all;
}

class BackendTest : public testing::TestWithParam<Variant> {
 protected:
  BackendTest() {
    if (GetParam().isa.empty()) return;
    EXPECT_TRUE(simd::select_loops(GetParam().isa.c_str()));
  }
  ~BackendTest() override { simd::select_loops(simd::loop_names()[0]); }

  // Compares on one op; false where the back end does not serve it. The same op must give the same
  // bits whatever lay in the memory before, and from another kernel of the same request.
  bool agrees(const OpCase& test, double tolerance = kTolerance) {
    const auto kernel = kernel_of(backend(), test);
    if (!kernel) return false;
    const auto expected = run_on("eigen", test);
    const auto first = run_kernel(*kernel, test, 0xFF);
    const auto again = run_kernel(*kernel, test, 0x3C);
    const auto other = run_on(backend(), test);
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (test.op.outputs[i] == kNoValue) continue;
      EXPECT_LE(difference((*expected)[i], first[i]), tolerance)
          << "output " << i << " of " << describe(test);
      EXPECT_TRUE(same_bits(first[i], again[i])) << "output " << i << " of " << describe(test);
      EXPECT_TRUE(same_bits(first[i], (*other)[i])) << "output " << i << " of " << describe(test);
    }
    ++served_;
    return true;
  }
  const std::string& backend() const { return GetParam().backend; }
  bool is(const char* name) const { return backend() == name; }
  // Of what a back end has no kernels: the cases that it skips.
  bool lacks(const std::string& ops) const {
    static const std::map<std::string, std::set<std::string>> lacking{
        {"onednn",
         {"attention", "batch normalization", "element-wise ops", "layer normalization", "losses", "pooling",
          "softmax"}},
        {"simd", {"MatMul", "MeanLoss"}}};
    const auto row = lacking.find(backend());
    return row != lacking.end() && row->second.contains(ops);
  }

  Random random_{2024};
  int served_ = 0;
};

TEST_P(BackendTest, Conv) {
  if (lacks("convolutions")) GTEST_SKIP();
  for (const ConvSpec& spec : conv_specs()) {
    const OpCase forward = conv_case(spec, random_);
    agrees(forward);
    const Tensor dy = random_tensor(forward.outputs[0].shape, random_);
    for (const auto& gradient : product_gradients(forward, dy)) agrees(gradient.test);
  }
  EXPECT_GT(served_, 10);
}

TEST_P(BackendTest, Gemm) {
  if (lacks("Gemm")) GTEST_SKIP();
  for (const GemmSpec& spec : gemm_specs()) {
    const OpCase forward = gemm_case(spec, random_);
    agrees(forward);
    const Tensor dy = random_tensor(forward.outputs[0].shape, random_);
    for (auto& gradient : product_gradients(forward, dy)) {
      agrees(gradient.test);
      if (gradient.targets.size() < 2) continue;
      gradient.test.op.outputs[0] = kNoValue;  // a bias alone is trained
      agrees(gradient.test);
    }
  }
  EXPECT_GT(served_, 10);
}

TEST_P(BackendTest, WindowsOfAnyKind) {
  if (lacks("convolutions")) GTEST_SKIP();
  Draw draw(31);
  for (const std::string& type : kWindowOps) {
    for (int i = 0; i < 60; ++i) {
      const OpCase forward = random_op_case(type, draw);
      agrees(forward);
      const auto results = run_on("eigen", forward);
      const Tensor dy = random_tensor(forward.outputs[0].shape, random_);
      for (auto& gradient : window_gradients(forward, *results, dy)) {
        agrees(gradient.test);
        if (gradient.targets.size() < 2) continue;
        gradient.test.op.outputs[0] = kNoValue;  // a bias alone is trained
        agrees(gradient.test);
      }
    }
  }
  EXPECT_GT(served_, 100);
}

TEST_P(BackendTest, AveragesOfLargePlanes) {
  if (lacks("pooling")) GTEST_SKIP();
  for (const Shape& shape : {Shape{2, 3, 56, 57}, Shape{3, 2, 7, 7}, Shape{2, 2, 1000}, Shape{1, 3, 70, 5}}) {
    std::vector<Tensor> inputs;
    inputs.push_back(random_tensor(shape, random_));
    const Shape one = with_plane(shape, shape[1], {1, 1});
    const OpCase forward = make_case("GlobalAveragePool", {}, std::move(inputs), {{DType::kF32, one}});
    EXPECT_TRUE(agrees(forward));
    for (const auto& gradient : window_gradients(forward, {}, random_tensor(one, random_))) {
      EXPECT_TRUE(agrees(gradient.test));
    }
  }
}

TEST_P(BackendTest, MaxPool) {
  if (lacks("pooling")) GTEST_SKIP();
  for (const PoolSpec& spec : pool_specs()) {
    OpCase forward = pool_case(spec, random_);
    EXPECT_TRUE(agrees(forward));
    std::vector<Tensor> inputs;
    inputs.push_back(random_tensor(forward.outputs[0].shape, random_));
    inputs.push_back(std::move((*run_on("eigen", forward))[1]));
    EXPECT_TRUE(agrees(gradient_case(forward, "MaxPoolGrad", std::move(inputs), {forward.inputs[0].type()})));
    forward.op.outputs.pop_back();  // the inference form
    forward.outputs.pop_back();
    EXPECT_TRUE(agrees(forward));
  }
}

TEST_P(BackendTest, MaxPoolShowsNaN) {
  if (lacks("pooling")) GTEST_SKIP();
  for (const PoolSpec& spec : pool_specs()) {
    OpCase forward = pool_case(spec, random_);
    auto x = forward.inputs[0].as<float>();
    for (std::size_t i = 3; i < x.size(); i += 5) x[i] = std::numeric_limits<float>::quiet_NaN();
    const auto expected = run_on("eigen", forward);
    const auto actual = run_on(backend(), forward);
    ASSERT_TRUE(actual.has_value());
    EXPECT_TRUE(same_bits((*expected)[1], (*actual)[1])) << describe(forward);
    EXPECT_TRUE(same_bits((*expected)[0], (*actual)[0])) << describe(forward);
  }
}

TEST_P(BackendTest, BatchNormalization) {
  if (lacks("batch normalization")) GTEST_SKIP();
  for (const Shape& shape : batch_norm_shapes()) {
    const OpCase inference = batch_norm_case(shape, false, random_);
    EXPECT_TRUE(agrees(inference));
    EXPECT_TRUE(agrees(fixed_batch_norm_gradient(inference, random_tensor(shape, random_))));
    OpCase forward = batch_norm_case(shape, true, random_);
    EXPECT_TRUE(agrees(forward));
    const auto results = run_on("eigen", forward);
    OpCase gradient = batch_norm_gradient(forward, *results, random_tensor(shape, random_));
    const double tolerance =
        shape[0] == 2 ? 10 * kTolerance : kTolerance;  // of two samples most of dx cancels
    EXPECT_TRUE(agrees(gradient, tolerance));
    gradient.op.outputs[0] = kNoValue;
    EXPECT_TRUE(agrees(gradient, tolerance));
    forward.op.inputs.back() = kNoValue;  // without num_batches_tracked
    forward.op.outputs[3] = kNoValue;
    forward.in_place.pop_back();
    EXPECT_TRUE(agrees(forward));
    forward.op.outputs[1] = forward.op.outputs[2] = kNoValue;  // and run again
    forward.in_place.clear();
    EXPECT_TRUE(agrees(forward));
  }
}

TEST_P(BackendTest, Elementwise) {
  if (lacks("element-wise ops")) GTEST_SKIP();
  for (const std::int64_t n : {1, 2, 15, 16, 17, 63, 64, 1000, 65536}) {
    EXPECT_TRUE(agrees(simple_case("Relu", {n}, random_)));
    for (const int inputs : {2, 3}) EXPECT_TRUE(agrees(simple_case("ReluGrad", {n}, random_, inputs)));
    EXPECT_TRUE(agrees(simple_case("Add", {n}, random_, 2)));
    for (const float ratio : {0.0F, 0.1F, 0.25F, 0.4F, 0.999F}) {
      const OpCase forward = dropout_case({n}, ratio, random_);
      EXPECT_TRUE(agrees(forward));
      EXPECT_TRUE(same_bits((*run_on("eigen", forward))[0], (*run_on(backend(), forward))[0]));
      std::vector<Tensor> inputs;
      inputs.push_back(random_tensor({n}, random_));
      inputs.push_back(std::move((*run_on("eigen", forward))[1]));
      EXPECT_TRUE(agrees(gradient_case(forward, "DropoutGrad", std::move(inputs), {forward.outputs[0]})));
    }
  }
}

TEST_P(BackendTest, FunctionsOfOneNumber) {
  if (lacks("element-wise ops")) GTEST_SKIP();
  const std::map<std::string, Attribute> tanh{{"approximate", std::string("tanh")}};
  const std::vector<std::pair<std::string, std::map<std::string, Attribute>>> functions{
      {"Gelu", {}}, {"Gelu", tanh}, {"Sigmoid", {}}, {"Tanh", {}}};
  for (const auto& [type, attributes] : functions) {
    for (const std::int64_t n : {1, 3, 16, 33, 65536}) {
      for (const float reach : {1e-3F, 1.0F, 8.0F, 200.0F}) {
        OpCase forward = simple_case(type, {n}, random_, 1, attributes);
        for (float& x : forward.inputs[0].as<float>()) x *= reach / 3;
        EXPECT_TRUE(agrees(forward, 1e-6)) << reach;
        std::vector<Tensor> inputs;
        inputs.push_back(random_tensor({n}, random_));
        inputs.push_back(type == "Gelu" ? forward.inputs[0].clone() : (*run_on("eigen", forward))[0].clone());
        EXPECT_TRUE(
            agrees(gradient_case(forward, type + "Grad", std::move(inputs), {forward.outputs[0]}), 2e-6))
            << reach;
      }
    }
    OpCase nan = simple_case(type, {40}, random_, 1, attributes);
    nan.inputs[0].as<float>()[3] = nan.inputs[0].as<float>()[39] = std::numeric_limits<float>::quiet_NaN();
    const auto y = *run_on(backend(), nan);
    EXPECT_TRUE(std::isnan(y[0].as<float>()[3]) && std::isnan(y[0].as<float>()[39])) << type;
  }
}

TEST_P(BackendTest, SoftmaxAndLosses) {
  if (lacks("softmax")) GTEST_SKIP();
  for (const std::int64_t rows : {1, 2, 54, 64}) {
    for (const std::int64_t classes : {1, 2, 10, 16, 17, 100}) {
      EXPECT_TRUE(agrees(simple_case("Softmax", {rows, classes}, random_)));
      EXPECT_TRUE(agrees(simple_case("SoftmaxGrad", {rows, classes}, random_, 2)));
      for (const char* loss : {"MseLoss", "CrossEntropyLoss"}) {
        const OpCase forward = loss_case(loss, rows, classes, random_);
        EXPECT_TRUE(agrees(forward));
        OpCase gradient = loss_gradient(forward);
        gradient.context.loss_weight = 0.25F;
        EXPECT_TRUE(agrees(gradient));
      }
    }
  }
  for (const std::int64_t axis : {0, 1, 2, -2}) {  // an inner axis may be left to others
    agrees(simple_case("Softmax", {3, 4, 5}, random_, 1, {{"axis", axis}}));
    agrees(simple_case("SoftmaxGrad", {3, 4, 5}, random_, 2, {{"axis", axis}}));
  }
}

TEST_P(BackendTest, Attention) {
  if (lacks("attention")) GTEST_SKIP();
  for (const AttentionSpec& spec : attention_specs()) {
    OpCase forward = attention_case(spec, random_);
    EXPECT_TRUE(agrees(forward));
    const auto results = run_on("eigen", forward);
    OpCase gradient = attention_gradient(forward, *results, random_tensor(forward.outputs[0].shape, random_));
    EXPECT_TRUE(agrees(gradient));
    if (spec.form != AttentionSpec::Form::kPacked) {
      gradient.op.outputs[0] = gradient.op.outputs[2] = kNoValue;  // k alone is trained
      EXPECT_TRUE(agrees(gradient));
    }
    forward.op.outputs.pop_back();  // the inference form, without dropout
    forward.outputs.pop_back();
    EXPECT_TRUE(agrees(forward));
  }
}

// Where -1e9 is added to all scores of a row, the logarithm of their sum is lost in a float; weights sum
// to 1.
TEST_P(BackendTest, AttentionGradOfRowsThatALargeNumberHides) {
  if (lacks("attention")) GTEST_SKIP();
  OpCase forward = attention_case(attention_specs()[2], random_);
  std::ranges::fill(forward.inputs[3].as<float>(), -1e9F);
  const auto results = *run_on(backend(), forward);
  Tensor dy(DType::kF32, forward.outputs[0].shape);
  std::ranges::fill(dy.as<float>(), 1.0F);
  const auto made = *run_on(backend(), attention_gradient(forward, results, dy));
  const auto dv = made[2].as<float>();
  const auto weighed = static_cast<double>(dy.as<float>().size());  // each of dY by weights that sum to 1
  EXPECT_NEAR(std::accumulate(dv.begin(), dv.end(), 0.0), weighed, 0.1);
}

TEST_P(BackendTest, AttentionOfARowThatIsNaNIsNaN) {
  if (lacks("attention")) GTEST_SKIP();
  OpCase forward = attention_case(attention_specs()[5], random_);  // Q by itself
  std::ranges::fill(forward.inputs[0].as<float>(), std::numeric_limits<float>::quiet_NaN());
  const auto y = *run_on(backend(), forward);
  EXPECT_TRUE(std::ranges::all_of(y[0].as<float>(), [](float value) { return std::isnan(value); }));
}

TEST_P(BackendTest, LayerNormalization) {
  if (lacks("layer normalization")) GTEST_SKIP();
  for (const auto& [rows, size] : layer_norm_sizes()) {
    for (const bool bias : {false, true}) {
      OpCase forward = layer_norm_case(rows, size, bias, random_);
      EXPECT_TRUE(agrees(forward));
      const auto results = run_on("eigen", forward);
      OpCase gradient = layer_norm_gradient(forward, *results, random_tensor({rows, size}, random_));
      EXPECT_TRUE(agrees(gradient));
      gradient.op.outputs[0] = gradient.op.outputs[1] = kNoValue;
      EXPECT_TRUE(agrees(gradient));
      forward.op.outputs.resize(1);  // the inference form
      forward.outputs.resize(1);
      EXPECT_TRUE(agrees(forward));
    }
  }
}

TEST_P(BackendTest, MatMul) {
  if (lacks("MatMul")) GTEST_SKIP();
  const std::vector<std::pair<Shape, Shape>> shapes{
      {{5, 7}, {7, 3}},
      {{4, 33, 20}, {20, 18}},
      {{6, 9, 16}, {6, 16, 8}},
      {{2, 3, 8, 5}, {2, 3, 5, 4}},
      {{2, 3, 8, 5}, {3, 5, 4}},
      {{3, 4}, {5, 4, 2}},
      {{4}, {4, 6}},
      {{5, 4}, {4}},
      {{2, 2048, 32}, {2, 32, 64}},  // so many terms that a library may share them among threads
  };
  for (const auto& [a, b] : shapes) {
    Graph graph;
    const ValueId left = graph.add_input("a", {DType::kF32, a});
    const ValueId right = graph.add_input("b", {DType::kF32, b});
    graph.add_op({.name = "op", .type = "MatMul", .inputs = {left, right}}, {"y"});
    const TensorType y = graph.types(1).back();
    std::vector<Tensor> inputs;
    inputs.push_back(random_tensor(a, random_));
    inputs.push_back(random_tensor(b, random_));
    const OpCase forward = make_case("MatMul", {}, std::move(inputs), {y});
    agrees(forward);
    const Tensor dy = random_tensor(y.shape, random_);
    for (const bool of_left : {false, true}) {
      std::vector<Tensor> of_gradient;
      of_gradient.push_back(dy.clone());
      of_gradient.push_back(forward.inputs[of_left ? 1 : 0].clone());
      agrees(gradient_case(forward, of_left ? "MatMulGradLeft" : "MatMulGradRight", std::move(of_gradient),
                           {{DType::kF32, of_left ? a : b}}));
    }
  }
  EXPECT_GT(served_, 12);
}

TEST_P(BackendTest, SoftmaxOfLargeNumbers) {
  OpCase test = simple_case("Softmax", {4, 10}, random_);
  for (float& value : test.inputs[0].as<float>()) value *= 1e4F;
  if (lacks("softmax")) GTEST_SKIP();
  EXPECT_TRUE(agrees(test));
}

// Nothing was made of a line of NaN, as a row of weights is that sees nothing: its gradient is none either.
TEST_P(BackendTest, SoftmaxOfALineThatIsNotUsedHasNoGradient) {
  OpCase test = simple_case("SoftmaxGrad", {3, 10}, random_, 2);
  std::ranges::fill(test.inputs[0].as<float>().subspan(10, 10), 0.0F);
  std::ranges::fill(test.inputs[1].as<float>().subspan(10, 10), std::numeric_limits<float>::quiet_NaN());
  const std::vector<Tensor> by_eigen = *run_on("eigen", test);
  for (const float each : by_eigen[0].as<float>()) EXPECT_FALSE(std::isnan(each));
  if (lacks("softmax")) GTEST_SKIP();
  EXPECT_TRUE(agrees(test));
}

TEST_P(BackendTest, Losses) {
  if (lacks("losses")) GTEST_SKIP();
  int served = 0;
  for (const OpCase& forward : loss_cases(random_)) {
    OpCase gradient = loss_gradient(forward);
    gradient.context.loss_weight = 0.25F;
    const bool both = agrees(forward) && agrees(gradient);
    served += both ? 1 : 0;
    // Classes that do not lie side by side may be left to others.
    const bool apart = forward.op.integer("class_axis", 1) + 1 < forward.inputs[0].shape().rank();
    EXPECT_TRUE(both || lacks(forward.op.type) || (is("simd") && apart)) << describe(forward);
  }
  EXPECT_GT(served, 20);
}

TEST_P(BackendTest, HitsAreTheFirstOfTheLargest) {
  if (lacks("losses")) GTEST_SKIP();
  for (const char* type : {"MseLoss", "CrossEntropyLoss"}) {
    OpCase test = loss_case(type, 6, 20, random_);
    const auto x = test.inputs[0].as<float>();
    const auto labels = test.inputs[1].as<std::int64_t>();
    for (std::size_t row = 0; row < 6; ++row) {
      labels[row] = 7;
      x[row * 20 + 7] = 5;
    }
    x[1 * 20 + 3] = 5;                                        // before it, as large
    x[2 * 20 + 19] = 5;                                       // behind it, as large
    x[3 * 20 + 0] = 6;                                        // larger
    x[4 * 20 + 5] = std::numeric_limits<float>::quiet_NaN();  // nothing is known
    const auto results = run_on(backend(), test);
    EXPECT_EQ((*results)[1].as<std::int64_t>()[0], 3) << type;
    EXPECT_EQ((*results)[1].as<std::int64_t>()[1], 6) << type;
    EXPECT_TRUE(std::isnan((*results)[0].as<float>()[0])) << type;
  }
}

// As with PyTorch, a NaN among predictions or targets shows in the loss and in its gradient.
TEST_P(BackendTest, LossesShowNaN) {
  if (lacks("losses")) GTEST_SKIP();
  for (const char* type : {"MseLoss", "L1Loss", "BceWithLogitsLoss", "CrossEntropyLoss"}) {
    for (const std::size_t input : {0U, 1U}) {
      OpCase forward =
          loss_case(type, random_tensor({4, 21}, random_, -4, 4), random_tensor({4, 21}, random_, 0, 1));
      OpCase gradient = loss_gradient(forward);
      forward.inputs[input].as<float>()[25] = std::numeric_limits<float>::quiet_NaN();
      gradient.inputs[input].as<float>()[25] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(std::isnan((*run_on(backend(), forward))[0].as<float>()[0])) << type << input;
      EXPECT_TRUE(std::isnan((*run_on(backend(), gradient))[0].as<float>()[25])) << type << input;
    }
  }
}

TEST_P(BackendTest, WithoutACountedPositionLossAndGradientAreZero) {
  if (lacks("losses")) GTEST_SKIP();
  OpCase forward = loss_case("CrossEntropyLoss", 5, 10, random_, {{"ignore_index", std::int64_t{3}}});
  std::ranges::fill(forward.inputs[1].as<std::int64_t>(), 3);
  for (const std::int64_t counted_elsewhere : {0, 8}) {
    forward.inputs[3].as<std::int64_t>()[0] = counted_elsewhere;
    const auto results = run_on(backend(), forward);
    EXPECT_EQ((*results)[0].as<float>()[0], 0);
    EXPECT_EQ((*results)[1].as<std::int64_t>()[1], 0);
    const auto gradient = run_on(backend(), loss_gradient(forward));
    for (const float number : (*gradient)[0].as<float>()) EXPECT_EQ(number, 0);
  }
}

TEST_P(BackendTest, MorePositionsThanTheBatchHasAreRefused) {
  if (lacks("losses")) GTEST_SKIP();
  OpCase test = loss_case("CrossEntropyLoss", 5, 10, random_, {{"ignore_index", std::int64_t{-1}}});
  for (const std::int64_t counted : {4, 0, -7}) {
    test.inputs[3].as<std::int64_t>()[0] = counted;
    const auto kernel = kernel_of(backend(), test);
    EXPECT_THAT([&] { run_kernel(*kernel, test, 0); },
                testing::ThrowsMessage<std::exception>(testing::HasSubstr("5 positions of the micro-batch")));
  }
}

TEST_P(BackendTest, LabelsOutOfRangeAreRefused) {
  if (lacks("losses")) GTEST_SKIP();
  for (const char* type : {"MseLoss", "CrossEntropyLoss"}) {
    for (const std::int64_t label :
         {std::int64_t{-1}, std::int64_t{10}, std::numeric_limits<std::int64_t>::min()}) {
      OpCase forward = loss_case(type, 5, 10, random_);
      OpCase gradient = loss_gradient(forward);
      for (OpCase* test : {&forward, &gradient}) {
        test->inputs[1].as<std::int64_t>()[3] = label;
        const auto kernel = kernel_of(backend(), *test);
        ASSERT_NE(kernel, nullptr);
        EXPECT_THAT([&] { run_kernel(*kernel, *test, 0); },
                    testing::ThrowsMessage<std::exception>(testing::HasSubstr("sample 3")));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, BackendTest, testing::ValuesIn(variants()),
                         [](const auto& parameter) { return parameter.param.backend + parameter.param.isa; });

}  // namespace
}  // namespace rookery::kernel_tests
