// Every gradient op against central differences of sum(r * forward(x)), r random.
#include <gtest/gtest.h>

#include "tests/models/kernels/cases.hpp"
#include "tests/models/kernels/random_cases.hpp"

namespace rookery::kernel_tests {
namespace {

double weighted_sum(const OpCase& forward, const Tensor& r) {
  const auto results = run_on("eigen", forward);
  double sum = 0;
  const auto y = (*results)[0].as<float>();
  for (std::size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(y[i]) * r.as<float>()[i];
  return sum;
}

// Compares d sum(r y) / d input with `gradient` at a few places.
void check(OpCase& forward, int input, const Tensor& gradient, const Tensor& r, Random& random,
           float epsilon) {
  ASSERT_EQ(forward.inputs[input].type(), gradient.type());
  auto x = forward.inputs[input].as<float>();
  double scale = 0.1;
  for (const float value : gradient.as<float>())
    scale = std::max(scale, std::abs(static_cast<double>(value)));
  for (int trial = 0; trial < 12; ++trial) {
    const auto place = std::uniform_int_distribution<std::size_t>(0, x.size() - 1)(random);
    const float before = x[place];
    x[place] = before + epsilon;
    const double above = weighted_sum(forward, r);
    x[place] = before - epsilon;
    const double below = weighted_sum(forward, r);
    x[place] = before;
    const double slope = (above - below) / (2 * static_cast<double>(epsilon));
    EXPECT_NEAR(gradient.as<float>()[place], slope, 5e-3 * scale)
        << "input " << input << " of " << describe(forward);
  }
}

Tensor unit() {
  Tensor one(DType::kF32, {});
  one.as<float>()[0] = 1;
  return one;
}

TEST(Gradients, ConvAndGemm) {
  Random random(11);
  std::vector<OpCase> cases;
  for (const ConvSpec& spec : conv_specs()) {
    if (spec.batch <= 3 && spec.in < 32) cases.push_back(conv_case(spec, random));
  }
  for (const GemmSpec& spec : gemm_specs()) {
    if (spec.m * spec.n * spec.k < 50000) cases.push_back(gemm_case(spec, random));
  }
  for (OpCase& forward : cases) {
    const Tensor dy = random_tensor(forward.outputs[0].shape, random);
    for (const auto& gradient : product_gradients(forward, dy)) {
      const auto results = run_on("eigen", gradient.test);
      for (std::size_t i = 0; i < gradient.targets.size(); ++i) {
        check(forward, gradient.targets[i], (*results)[i], dy, random, 0.05F);
      }
    }
  }
}

TEST(Gradients, BatchNormalization) {
  Random random(12);
  for (const Shape& shape : {Shape{4, 3, 3, 2}, Shape{9, 5}, Shape{64, 16, 4, 4}}) {
    OpCase forward = batch_norm_case(shape, true, random);
    const Tensor dy = random_tensor(shape, random);
    const auto results = run_on("eigen", batch_norm_gradient(forward, *run_on("eigen", forward), dy));
    for (int input = 0; input < 3; ++input) {
      check(forward, input, (*results)[input], dy, random, 0.01F);
    }
  }
}

TEST(Gradients, BatchNormalizationByRunningStatistics) {
  Random random(15);
  for (const Shape& shape : {Shape{4, 3, 3, 2}, Shape{9, 5}, Shape{6, 16, 4, 4}}) {
    OpCase forward = batch_norm_case(shape, false, random);
    const Tensor dy = random_tensor(shape, random);
    const auto results = run_on("eigen", fixed_batch_norm_gradient(forward, dy));
    for (int input = 0; input < 3; ++input) {
      check(forward, input, (*results)[input], dy, random, 0.01F);
    }
  }
}

TEST(Gradients, MaxPool) {
  Random random(13);
  for (const PoolSpec& spec : pool_specs()) {
    OpCase forward = pool_case(spec, random);
    // Numbers farther apart than the step of the differences.
    auto x = forward.inputs[0].as<float>();
    std::iota(x.begin(), x.end(), 0.0F);
    std::shuffle(x.begin(), x.end(), random);
    const Tensor dy = random_tensor(forward.outputs[0].shape, random);
    std::vector<Tensor> inputs;
    inputs.push_back(dy.clone());
    inputs.push_back(std::move((*run_on("eigen", forward))[1]));
    const OpCase gradient =
        gradient_case(forward, "MaxPoolGrad", std::move(inputs), {forward.inputs[0].type()});
    check(forward, 0, (*run_on("eigen", gradient))[0], dy, random, 0.25F);
  }
}

TEST(Gradients, WindowsOfAnyKind) {
  Random random(17);
  Draw draw(18);
  for (const std::string& type : kWindowOps) {
    for (int i = 0; i < 25; ++i) {
      OpCase forward = random_op_case(type, draw);
      if (type == "MaxPool") {  // numbers farther apart than the step of the differences
        auto x = forward.inputs[0].as<float>();
        std::iota(x.begin(), x.end(), 0.0F);
        std::shuffle(x.begin(), x.end(), random);
      }
      const auto results = run_on("eigen", forward);
      const Tensor dy = random_tensor(forward.outputs[0].shape, random);
      for (const auto& gradient : window_gradients(forward, *results, dy)) {
        const auto gradients = run_on("eigen", gradient.test);
        for (std::size_t target = 0; target < gradient.targets.size(); ++target) {
          check(forward, gradient.targets[target], (*gradients)[target], dy, random, 0.25F);
        }
      }
    }
  }
}

TEST(Gradients, ReluAndSoftmax) {
  Random random(14);
  const std::vector<std::pair<std::string, std::int64_t>> ops{{"Relu", 0}, {"Softmax", -1}, {"Softmax", 1}};
  for (const auto& [type, axis] : ops) {
    OpCase forward = simple_case(type, {4, 5, 6}, random, 1, {{"axis", axis}});
    for (float& value : forward.inputs[0].as<float>())
      value += value < 0 ? -0.1F : 0.1F;  // away from the kink
    const Tensor dy = random_tensor({4, 5, 6}, random);
    std::vector<Tensor> inputs;
    inputs.push_back(dy.clone());
    inputs.push_back(std::move((*run_on("eigen", forward))[0]));
    const OpCase gradient = gradient_case(forward, type + "Grad", std::move(inputs), {forward.outputs[0]});
    check(forward, 0, (*run_on("eigen", gradient))[0], dy, random, 0.01F);
  }
}

TEST(Gradients, Dropout) {
  Random random(15);
  OpCase forward = dropout_case({50, 7}, 0.4F, random);
  const Tensor dy = random_tensor({50, 7}, random);
  std::vector<Tensor> inputs;
  inputs.push_back(dy.clone());
  inputs.push_back(std::move((*run_on("eigen", forward))[1]));
  const OpCase gradient = gradient_case(forward, "DropoutGrad", std::move(inputs), {forward.outputs[0]});
  check(forward, 0, (*run_on("eigen", gradient))[0], dy, random, 0.1F);
}

TEST(Gradients, AttentionWithMaskAndDropout) {
  Random random(17);
  for (const AttentionSpec& spec : attention_specs()) {
    if (spec.rows > 100) continue;
    OpCase forward = attention_case(spec, random);
    const Tensor dy = random_tensor(forward.outputs[0].shape, random);
    const auto results = run_on("eigen", attention_gradient(forward, *run_on("eigen", forward), dy));
    for (int input = 0; input < 3; ++input) {
      if (forward.op.inputs[input] == kNoValue) continue;
      check(forward, input, (*results)[input], dy, random, 0.02F);
    }
  }
}

TEST(Gradients, LayerNormalization) {
  Random random(18);
  OpCase forward = layer_norm_case(7, 9, true, random);
  const Tensor dy = random_tensor({7, 9}, random);
  const auto results = run_on("eigen", layer_norm_gradient(forward, *run_on("eigen", forward), dy));
  for (int input = 0; input < 3; ++input) {
    check(forward, input, (*results)[input], dy, random, 0.01F);
  }
}

TEST(Gradients, Losses) {
  Random random(16);
  for (OpCase& forward : loss_cases(random)) {
    OpCase gradient = loss_gradient(forward);
    const auto plain = run_on("eigen", gradient);
    const float weight = forward.op.number("weight", 1);
    Tensor factor = unit();
    factor.as<float>()[0] = weight;
    check(forward, 0, (*plain)[0], factor, random, 0.01F);
    // The share of a micro-batch: of the positions that count in the batch, whatever the others hold.
    gradient.context.loss_weight = 0.25F;
    const float share = forward.inputs.size() > 3 ? 1 : 0.25F;
    const auto quarter = run_on("eigen", gradient);
    for (std::size_t i = 0; i < (*plain)[0].as<float>().size(); ++i) {
      EXPECT_FLOAT_EQ((*quarter)[0].as<float>()[i], share * (*plain)[0].as<float>()[i]);
    }
  }
}

}  // namespace
}  // namespace rookery::kernel_tests
