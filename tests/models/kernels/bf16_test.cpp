// Products of numbers rounded to bf16, summed in f32, where the processor has them.
#include <gtest/gtest.h>

#include <bit>

#include "models/graph/ops/builder.hpp"
#include "models/kernels/precision.hpp"
#include "tests/models/kernels/cases.hpp"

namespace rookery::kernel_tests {
namespace {

// As the variant computes it: every operand rounded to the nearest bf16, ties to even.
OpCase rounded(const OpCase& test, std::size_t operands) {
  OpCase result{.op = test.op, .inputs = {}, .outputs = test.outputs};
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    result.inputs.push_back(test.inputs[i].clone());
    if (i >= operands) continue;
    for (float& value : result.inputs.back().as<float>()) {
      auto bits = std::bit_cast<std::uint32_t>(value);
      bits += 0x7FFFU + (bits >> 16 & 1U);
      value = std::bit_cast<float>(bits & 0xFFFF0000U);
    }
  }
  return result;
}

// Its error is that of rounding the operands, and no other.
void expect_rounded_product(const OpCase& test) {
  const auto actual = run_on("onednn/bf16", test);
  ASSERT_TRUE(actual) << describe(test);
  const auto exact = run_on("eigen", test);
  const auto expected = run_on("eigen", rounded(test, 2));
  EXPECT_LE(difference((*expected)[0], (*actual)[0]), 1e-5) << describe(test);
  EXPECT_GT(difference((*exact)[0], (*actual)[0]), 1e-5) << "nothing was rounded: " << describe(test);
  EXPECT_LE(difference((*exact)[0], (*actual)[0]), 1e-2) << describe(test);
}

bool has_bf16() {
  Random random(1);
  return kernel_of("onednn/bf16", gemm_case({32, 32, 32}, random)) != nullptr;
}

TEST(Bf16, ConvAndItsGradients) {
  if (!has_bf16()) GTEST_SKIP() << "this processor has none";
  Random random(2);
  const std::vector<ConvSpec> specs{{2, 32, 14, 14, 32},
                                    {2, 16, 9, 7, 32, {3, 3}, {2, 2}},
                                    {2, 32, 8, 8, 64, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}}};
  for (const ConvSpec& spec : specs) {
    const OpCase forward = conv_case(spec, random);
    expect_rounded_product(forward);
    for (const GradientOf& gradient :
         product_gradients(forward, random_tensor(forward.outputs[0].shape, random)))
      expect_rounded_product(gradient.test);
  }
}

TEST(Bf16, GemmAndItsGradients) {
  if (!has_bf16()) GTEST_SKIP() << "this processor has none";
  Random random(3);
  for (const GemmSpec& spec :
       {GemmSpec{64, 256, 128}, GemmSpec{33, 10, 256}, GemmSpec{16, 48, 96, false, false}}) {
    const OpCase forward = gemm_case(spec, random);
    expect_rounded_product(forward);
    for (const GradientOf& gradient :
         product_gradients(forward, random_tensor(forward.outputs[0].shape, random)))
      expect_rounded_product(gradient.test);
  }
}

TEST(Bf16, MatMulAndItsGradients) {
  if (!has_bf16()) GTEST_SKIP() << "this processor has none";
  Random random(4);
  const auto product = [&](const char* type, const Shape& left, const Shape& right, const Shape& result) {
    std::vector<Tensor> inputs;
    inputs.push_back(random_tensor(left, random));
    inputs.push_back(random_tensor(right, random));
    return make_case(type, {}, std::move(inputs), {{DType::kF32, result}});
  };
  const Shape a{3, 2, 20, 48}, b{3, 2, 48, 64}, y{3, 2, 20, 64};
  const OpCase forward = product("MatMul", a, b, y);
  expect_rounded_product(forward);
  const auto gradient_of = [&](const char* type, const Shape& other, const Shape& result) {
    std::vector<Tensor> inputs;
    inputs.push_back(random_tensor(y, random));
    inputs.push_back(random_tensor(other, random));
    return gradient_case(forward, type, std::move(inputs), {{DType::kF32, result}});
  };
  expect_rounded_product(gradient_of("MatMulGradLeft", b, a));
  expect_rounded_product(gradient_of("MatMulGradRight", a, b));
}

TEST(Bf16, TakesProductsThatGain) {
  if (!has_bf16()) GTEST_SKIP() << "this processor has none";
  GraphBuilder net;
  const ValueId x = net.input("input", {32, 8, 8});
  net.conv2d("winograd", x, 32);
  net.conv2d("conv", x, 32);
  for (const std::int64_t side : {16, 64}) {
    const std::string name = std::to_string(side);
    const ValueId a = net.input("a" + name, {side, side});
    net.matmul("matmul" + name, a, a);
  }
  const ValueId steps = net.transpose("steps", net.input("sequence", {7, 12}), {1, 0, 2});
  for (const std::int64_t hidden : {48, 20})
    net.recurrent("lstm" + std::to_string(hidden), "LSTM", steps, hidden);
  const Graph graph = net.finish(net.linear("linear", net.input("features", {100}), 10));
  KernelChoice choice = choose_kernels(graph, 2);
  choice["winograd"] = "simd/blocked-winograd";
  choice["conv"] = "onednn/blocked";
  choice["conv.ConvGradInput"] = "onednn/direct";
  choice["linear.GemmGradWeight"] = "simd";
  const std::string small = choice.at("matmul16");
  choice = in_bf16(graph, choice);
  EXPECT_EQ(choice.at("winograd"), "simd/blocked-winograd");
  EXPECT_TRUE(choice.at("conv").ends_with("bf16")) << choice.at("conv");
  EXPECT_FALSE(choice.contains("conv.ConvGradInput"));
  EXPECT_FALSE(choice.contains("linear.GemmGradWeight"));
  EXPECT_EQ(choice.at("matmul16"), small);
  EXPECT_EQ(choice.at("matmul64"), "onednn/bf16");
  EXPECT_EQ(choice.at("linear"), "onednn/bf16");
  EXPECT_EQ(choice.at("lstm48_l0"), "onednn/bf16");
  EXPECT_FALSE(choice.at("lstm20_l0").ends_with("bf16")) << "which has no loops";
}

}  // namespace
}  // namespace rookery::kernel_tests
