// Which back end serves what, and what happens where none does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <thread>

#include "models/base/error.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/choose.hpp"
#include "models/kernels/measured.hpp"
#include "models/kernels/simd/loops/loops.hpp"
#include "models/kernels/threads.hpp"
#include "tests/models/kernels/cases.hpp"

namespace rookery::kernel_tests {
namespace {

Graph small_network() {
  GraphBuilder builder;
  ValueId x = builder.input("input", {1, 8, 8});
  x = builder.relu("relu_1", builder.conv2d("conv_1", x, 16));
  x = builder.dropout("dropout_1", builder.max_pool2d("pool_1", x, 4, 4), 0.25F);
  x = builder.relu("relu_2", builder.conv2d("conv_2", x, 32));
  x = builder.linear("dense_1", builder.flatten("flatten", builder.batch_norm("bn_1", x)), 10);
  return builder.finish(builder.softmax("softmax", x));
}

bool has_onednn() {
  return std::ranges::find(backends(), "onednn") != backends().end();
}

TEST(Choice, SmallShapesGoToTheSimdLoops) {
  const KernelChoice choice = choose_kernels(small_network(), 64);
  for (const char* op : {"conv_1", "relu_1", "pool_1", "dropout_1", "conv_2", "bn_1", "dense_1", "softmax"}) {
    EXPECT_EQ(choice.at(op), "simd") << op;
  }
}

TEST(Choice, IsTheSameEveryTime) {
  const Graph graph = small_network();
  const KernelChoice first = choose_kernels(graph, 54);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(choose_kernels(graph, 54), first);
}

TEST(Choice, OfARunThatGoesOnStays) {
  const Graph graph = small_network();
  const KernelChoice now = choose_kernels(graph, 64);
  KernelChoice before = now;
  before["conv_1"] = "eigen";
  const KeptKernels kept = keep_kernels(graph, 64, before, now);
  EXPECT_EQ(kept.choice, before);
  EXPECT_TRUE(kept.replaced.empty());
}

TEST(Choice, WhatThisMachineLacksOrNobodyKnowsIsReplacedWithItsGradients) {
  const Graph graph = small_network();
  const KernelChoice now = choose_kernels(graph, 64);
  KernelChoice before = now;
  before["conv_1"] = "abacus";
  before["conv_1.ConvGradInput"] = "eigen";
  before.erase("dense_1");
  const KeptKernels kept = keep_kernels(graph, 64, before, now);
  EXPECT_EQ(kept.choice, now);
  EXPECT_THAT(kept.replaced, testing::ElementsAre("conv_1", "dense_1"));
}

TEST(Choice, LargeProductsGoToOneDnn) {
  GraphBuilder builder;
  ValueId x = builder.input("input", {32, 32, 32});
  x = builder.conv2d("conv", x, 64, {.kernel = 1});
  const Graph graph = builder.finish(builder.linear("dense", builder.flatten("flatten", x), 512));
  const KernelChoice choice = choose_kernels(graph, 64);
  const char* expected = has_onednn() ? "onednn" : "eigen";
  EXPECT_THAT(choice.at("conv"), testing::StartsWith(expected));
  EXPECT_EQ(choice.at("dense"), expected);
}

TEST(Choice, WhatTheChosenBackendLacksIsServedByAnother) {
  Random random(1);
  const OpCase test = simple_case("Softmax", {3, 4, 5}, random, 1, {{"axis", std::int64_t{0}}});
  const auto types = test.input_types();
  const KernelRequest request{.op = test.op, .inputs = types, .outputs = test.outputs};
  ASSERT_EQ(make_kernel_of("simd", request), nullptr);
  const auto kernel = make_kernel("simd", request);
  EXPECT_TRUE(same_bits(run_kernel(*kernel, test, 0)[0], (*run_on("eigen", test))[0]));
}

TEST(Choice, AGradientOpFollowsItsForwardOpUnlessItHasAnEntryOfItsOwn) {
  const KernelChoice choice{{"conv", "onednn"}, {"conv.ConvGradInput", "simd/wide"}};
  const auto gradient = [](const char* name) {
    return Op{.name = name,
              .type = "ConvGradInput",
              .inputs = {},
              .outputs = {},
              .attributes = {{"forward", std::string("conv")}}};
  };
  EXPECT_EQ(chosen_kernel(choice, gradient("conv.ConvGradInput")), "simd/wide");
  EXPECT_EQ(chosen_kernel(choice, gradient("conv.ConvGradWeight")), "onednn");
  const Op other{.name = "relu", .type = "Relu", .inputs = {}, .outputs = {}, .attributes = {}};
  EXPECT_THAT([&] { chosen_kernel(choice, other); },
              testing::ThrowsMessage<ConfigError>(testing::HasSubstr("'relu'")));
}

TEST(Choice, AnEntryBelongsToAnOpOfTheForwardGraph) {
  const Graph graph = small_network();
  EXPECT_EQ(chosen_op(graph, "conv_1"), "conv_1");
  EXPECT_EQ(chosen_op(graph, "conv_1.ConvGradWeight"), "conv_1");
}

TEST(Choice, UnknownVariantsAreServedByNoBackendOfTheirName) {
  Random random(1);
  const OpCase test = simple_case("Relu", {3}, random);
  const auto types = test.input_types();
  const KernelRequest request{.op = test.op, .inputs = types, .outputs = test.outputs};
  for (const std::string& backend : backends()) {
    EXPECT_EQ(make_kernel_of(backend + "/sideways", request), nullptr) << backend;
  }
  EXPECT_NE(make_kernel("simd/sideways", request), nullptr);
}

TEST(Choice, EveryAlgorithmOfAConvolutionComputesTheSame) {
  Random random(3);
  const OpCase forward = conv_case({2, 32, 14, 14, 32}, random);
  std::vector<OpCase> tests{};
  for (GradientOf& gradient : product_gradients(forward, random_tensor(forward.outputs[0].shape, random)))
    tests.push_back(std::move(gradient.test));
  tests.push_back(conv_case({2, 32, 14, 14, 32}, random));
  for (const OpCase& test : tests) {
    const auto expected = run_on("eigen", test);
    for (const char* choice : {"onednn", "onednn/direct"}) {
      const auto actual = run_on(choice, test);
      if (!has_onednn()) continue;
      ASSERT_TRUE(actual) << choice << describe(test);
      for (std::size_t i = 0; i < actual->size(); ++i)
        EXPECT_LE(difference((*expected)[i], (*actual)[i]), 1e-5) << choice << describe(test);
    }
  }
}

// A timer that finds the kernel that it is asked for first to be `first` times as slow as the second.
MeasuredKernels::Timer fake_timer(double first, int& calls) {
  return [first, &calls](Kernel&, const KernelRequest&) { return calls++ % 2 == 0 ? first : 1.0; };
}

TEST(Choice, LargeConvolutionsAreMeasuredOnceForEveryShapeAndPass) {
  if (!has_onednn()) GTEST_SKIP();
  GraphBuilder builder;
  ValueId x = builder.input("input", {32, 32, 32});
  for (const char* name : {"conv_1", "conv_2", "conv_3"}) x = builder.conv2d(name, x, 32);
  const Graph graph = builder.finish(builder.conv2d("pointwise", x, 32, {.kernel = 1}));
  int calls = 0;
  MeasuredKernels measured({}, fake_timer(2, calls));
  const KernelChoice choice = choose_kernels(graph, 8, &measured);
  if (measured.known().empty()) GTEST_SKIP() << "this processor has no Winograd kernels";
  // The gradient of conv_1's input nobody wants; the pointwise convolution is too small.
  EXPECT_EQ(calls, 6);
  EXPECT_EQ(measured.known().size(), 3U);
  for (const char* op : {"conv_1", "conv_1.ConvGradWeight", "conv_3.ConvGradInput"})
    EXPECT_TRUE(choice.at(op).ends_with("winograd")) << op;
  EXPECT_FALSE(choice.contains("conv_1.ConvGradInput"));
  EXPECT_EQ(choice.at("pointwise"), "onednn/blocked") << "as what it follows";
  // What is known is not measured again, whatever a timer would find now.
  MeasuredKernels later(measured.known(), fake_timer(0.5, calls));
  EXPECT_EQ(choose_kernels(graph, 8, &later), choice);
  EXPECT_EQ(calls, 6);
  // Another batch is another shape.
  const KernelChoice direct = choose_kernels(graph, 9, &later);
  EXPECT_TRUE(direct.at("conv_2").ends_with("direct"));
  EXPECT_EQ(calls, 12);
}

TEST(Choice, LargeProductsAreMeasuredOnceForEveryShapeAndPass) {
  if (!has_onednn()) GTEST_SKIP();
  GraphBuilder builder;
  ValueId x = builder.input("input", {512});
  for (const char* name : {"fc_1", "fc_2"}) x = builder.linear(name, x, 512);
  const Graph graph = builder.finish(builder.linear("small", x, 10));
  int calls = 0;
  MeasuredKernels measured({}, fake_timer(2, calls));
  const KernelChoice choice = choose_kernels(graph, 64, &measured);
  EXPECT_EQ(calls, 6);
  for (const char* op : {"fc_1", "fc_1.GemmGradWeight", "fc_2", "fc_2.GemmGradInput", "fc_2.GemmGradWeight"})
    EXPECT_EQ(choice.at(op), "simd") << op;
  EXPECT_FALSE(choice.contains("fc_1.GemmGradInput")) << "that nobody wants";
  EXPECT_FALSE(choice.contains("small.GemmGradInput")) << "which follows its op";
  EXPECT_EQ(choose_kernels(graph, 100).at("fc_1"), "onednn") << "by rule";
  EXPECT_EQ(choose_kernels(graph, 64).at("fc_1"), "simd") << "by that for few rows";
  // A run that goes on keeps what it was measured to be, gradients included.
  MeasuredKernels others({}, fake_timer(0.5, calls));
  const KeptKernels kept = keep_kernels(graph, 64, choice, choose_kernels(graph, 64, &others));
  EXPECT_EQ(kept.choice, choice);
  EXPECT_TRUE(kept.replaced.empty());
}

TEST(Choice, WhatTakesLongIsTimedFewTimesAndWhatTakesVeryLongNever) {
  Random random(8);
  const OpCase gemm = gemm_case({2, 3, 4}, random);
  int runs = 0;
  const auto slow = lambda_kernel([&runs](const Arguments&) {
    ++runs;
    const std::clock_t begin = std::clock();
    while (std::clock() - begin < CLOCKS_PER_SEC / 5) {
    }
  });
  const std::vector<TensorType> inputs = gemm.input_types();
  EXPECT_GT(time_kernel(*slow, {.op = gemm.op, .inputs = inputs, .outputs = gemm.outputs}), 0.0);
  EXPECT_EQ(runs, 3);

  if (!has_onednn()) return;
  GraphBuilder builder;
  const Graph graph = builder.finish(builder.linear("head", builder.input("input", {4096}), 65536));
  MeasuredKernels measured({}, [](Kernel&, const KernelRequest&) -> double { throw BugError("timed"); });
  EXPECT_EQ(choose_kernels(graph, 4096, &measured).at("head"), "onednn");
}

// 40 channels make no blocks of 16, so that the gradient of what has them is no image in blocks.
TEST(Choice, AConvolutionOfAnImageWithoutBlocksIsMeasuredWithoutBlocks) {
  if (!has_onednn()) GTEST_SKIP();
  GraphBuilder builder;
  const ValueId x = builder.conv2d("to_40", builder.input("input", {32, 32, 32}), 40);
  const Graph graph = builder.finish(builder.conv2d("to_64", builder.relu("relu", x), 64));
  int calls = 0;
  MeasuredKernels measured({}, fake_timer(2, calls));
  for (const KernelChoice& choice : {choose_kernels(graph, 8, &measured), choose_kernels(graph, 8)}) {
    for (const char* op : {"to_40", "to_64"})
      EXPECT_THAT(choice.at(op),
                  testing::AllOf(testing::StartsWith("onednn"), testing::Not(testing::HasSubstr("blocked"))))
          << op;
    EXPECT_FALSE(asks_for(choice.at("relu"), "blocked"));
  }
}

TEST(Choice, AResidualBlockStaysInBlocks) {
  if (!has_onednn()) GTEST_SKIP();
  if (simd::loops().name != std::string("x86_64_v4")) GTEST_SKIP() << "blocks of 16 are for AVX-512";
  GraphBuilder builder;
  const ValueId x =
      builder.relu("relu_0", builder.conv2d("conv_0", builder.input("input", {32, 32, 32}), 32));
  const ValueId y = builder.batch_norm("norm", builder.conv2d("conv_1", x, 32));
  const ValueId sum = builder.relu("relu_1", builder.add("sum", y, x));
  const ValueId narrow = builder.conv2d("narrow", sum, 32, {.kernel = 1});
  const Graph graph = builder.finish(builder.add("with_bias", narrow, builder.parameter("bias", {32, 1, 1})));
  const KernelChoice choice = choose_kernels(graph, 8);
  for (const char* op : {"conv_0", "conv_1", "narrow"})
    EXPECT_TRUE(asks_for(choice.at(op), "blocked")) << op << ": " << choice.at(op);
  EXPECT_EQ(choice.at("narrow"), "onednn/blocked");
  for (const char* op : {"relu_0", "norm", "sum", "relu_1"}) EXPECT_EQ(choice.at(op), "simd/blocked") << op;
  EXPECT_NE(choice.at("with_bias"), "simd/blocked") << "its operands differ in shape";
}

TEST(Choice, WhatIsKnownButNotToBeHadIsMeasuredAgain) {
  if (!has_onednn()) GTEST_SKIP();
  GraphBuilder builder;
  const Graph graph = builder.finish(builder.conv2d("conv", builder.input("input", {32, 32, 32}), 32));
  int calls = 0;
  MeasuredKernels measured({}, fake_timer(2, calls));
  const KernelChoice choice = choose_kernels(graph, 8, &measured);
  MeasuredKernels::Known foreign = measured.known();
  for (auto& [key, value] : foreign) value = "cuda/tensor";
  MeasuredKernels again(foreign, fake_timer(2, calls));
  EXPECT_EQ(choose_kernels(graph, 8, &again), choice);
  EXPECT_EQ(again.known(), measured.known());
}

TEST(Choice, AMeasurementNamesItsMachine) {
  EXPECT_EQ(measured_machine(), measured_machine());
  EXPECT_THAT(measured_machine(), testing::HasSubstr(has_onednn() ? "oneDNN " : "no oneDNN"));
}

TEST(Choice, UnknownOpsAndBackendsAreErrorsThatNameThem) {
  Random random(1);
  OpCase test = simple_case("Relu", {3}, random);
  const auto types = test.input_types();
  const auto make = [&](const char* backend) {
    make_kernel(backend, {.op = test.op, .inputs = types, .outputs = test.outputs});
  };
  EXPECT_THAT([&] { make("cuda"); }, testing::ThrowsMessage<ConfigError>(testing::HasSubstr("'cuda'")));
  test.op.type = "Sine";
  EXPECT_THAT([&] { make("simd"); },
              testing::ThrowsMessage<ConfigError>(testing::AllOf(
                  testing::HasSubstr("the_Relu"), testing::HasSubstr("Sine"), testing::HasSubstr("f32[3]"))));
}

TEST(Threads, AreOneUntilSetAndBelongToTheCaller) {
  EXPECT_EQ(kernel_threads(), 1);
  set_kernel_threads(2);
  std::thread([] { EXPECT_EQ(kernel_threads(), 1); }).join();
  EXPECT_EQ(kernel_threads(), 2);
  set_kernel_threads(1);
  EXPECT_THROW(set_kernel_threads(0), BugError);
}

// Two threads, each with kernels of its own, compute what one computes.
TEST(Threads, KernelsOfTwoThreadsDoNotDisturbEachOther) {
  for (const std::string& backend : backends()) {
    Random random(21);
    std::vector<OpCase> tests;
    tests.push_back(conv_case({4, 16, 12, 12, 32}, random));
    tests.push_back(gemm_case({64, 256, 32}, random));
    std::erase_if(tests, [&](const OpCase& test) { return kernel_of(backend, test) == nullptr; });
    std::vector<Tensor> expected;
    for (const OpCase& test : tests) expected.push_back(std::move((*run_on(backend, test))[0]));
    const auto work = [&](int& wrong) {
      for (int round = 0; round < 20; ++round) {
        for (std::size_t i = 0; i < tests.size(); ++i) {
          if (!same_bits((*run_on(backend, tests[i]))[0], expected[i])) ++wrong;
        }
      }
    };
    int wrong_here = 0;
    int wrong_there = 0;
    std::thread other(work, std::ref(wrong_there));
    work(wrong_here);
    other.join();
    EXPECT_EQ(wrong_here + wrong_there, 0) << backend;
  }
}

}  // namespace
}  // namespace rookery::kernel_tests
