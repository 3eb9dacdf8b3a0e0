// An op with an activation computes what the op and the activation compute one after the other, to the
// bit: a cut may lie between the two.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "models/graph/op_attributes.hpp"
#include "models/graph/passes/differentiate.hpp"
#include "models/graph/passes/fuse.hpp"
#include "tests/models/kernels/cases.hpp"
#include "tests/models/kernels/random_cases.hpp"
#include "tests/models/kernels/run_graph.hpp"

namespace rookery::kernel_tests {
namespace {

Tensor rectified(const std::string& backend, const Tensor& x) {
  std::vector<Tensor> inputs;
  inputs.push_back(x.clone());
  return std::move(run_on(backend, make_case("Relu", {}, std::move(inputs), {x.type()})).value().at(0));
}

void expect_same_bits(OpCase test) {
  std::map<std::string, std::vector<Tensor>> apart;
  for (const std::string& backend : backends()) {
    if (auto results = run_on(backend, test)) apart.emplace(backend, std::move(*results));
  }
  test.op.attributes[kActivation] = "relu";
  test.op.attributes[kActivationOp] = "relu";
  for (const auto& [backend, expected] : apart) {
    const auto together = run_on(backend, test);
    ASSERT_TRUE(together) << backend << " " << describe(test);
    for (const char* relu : {"simd", "eigen"}) {
      EXPECT_TRUE(same_bits(rectified(relu, expected.at(0)), together->at(0)))
          << backend << " " << describe(test);
    }
    for (std::size_t i = 1; i < expected.size(); ++i) {
      EXPECT_TRUE(same_bits(expected.at(i), together->at(i))) << backend << " " << describe(test);
    }
  }
}

TEST(Activation, OfConvolutions) {
  Random random(1);
  for (const ConvSpec& spec : conv_specs()) expect_same_bits(conv_case(spec, random));
}

TEST(Activation, OfProducts) {
  Random random(2);
  for (const GemmSpec& spec : gemm_specs()) expect_same_bits(gemm_case(spec, random));
}

TEST(Activation, OfBatchNormalization) {
  Random random(3);
  for (const Shape& shape : batch_norm_shapes()) {
    expect_same_bits(batch_norm_case(shape, true, random));
    expect_same_bits(batch_norm_case(shape, false, random));
  }
}

TEST(Activation, OfSums) {
  Random random(4);
  expect_same_bits(simple_case("Add", {3, 5, 7}, random, 2));
}

// Forward and gradient of a Relu and a MaxPool over it, apart and fused.
TEST(Activation, BehindAMaxPool) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    Draw draw(seed);
    const RandomCase pool = random_ops().at("MaxPool").draw(draw);
    Graph graph;
    const ValueId x = graph.add_input("x", pool.inputs[0]->type());
    graph.add_op({.name = "relu", .type = "Relu", .inputs = {x}}, {"rectified"});
    graph.add_op(
        {.name = "pool", .type = "MaxPool", .inputs = {graph.at("rectified")}, .attributes = pool.attributes},
        {"y"});
    graph.mark_output(graph.at("y"));
    const Graph fused = fuse(graph);
    ASSERT_EQ(fused.ops().size(), 1U);
    const Tensor dy = draw.floats(graph.types(1)[graph.at("y")].shape);
    for (const std::string& backend : backends()) {
      const auto results = [&](const Graph& forward) {
        const ValueId input = forward.at("x");
        const ValueId output = forward.at("y");
        const TrainingGraph training = differentiate(forward, {.inputs = {input}, .received = {output}});
        std::map<ValueId, Tensor> given;
        given.emplace(input, pool.inputs[0]->clone());
        given.emplace(training.received_gradients.at(output), dy.clone());
        auto values = run_graph(training.graph, given, backend, {});
        std::vector<Tensor> kept;
        for (const ValueId id : {output, training.sent_gradients.at(input)}) {
          if (!values.empty()) kept.push_back(std::move(values[id]));
        }
        return kept;
      };
      const auto apart = results(graph);
      const auto together = results(fused);
      for (std::size_t i = 0; i < std::min(apart.size(), together.size()); ++i) {
        EXPECT_TRUE(same_bits(apart[i], together[i])) << backend << " seed " << seed << " " << i;
      }
    }
  }
}

// A product that is -0 and one that is NaN.
TEST(Activation, OfNegativeZeroAndOfNoNumber) {
  Random random(5);
  OpCase test = gemm_case({2, 17, 5, false, true, false}, random);
  for (float& a : test.inputs[0].as<float>()) a = 0;
  for (float& b : test.inputs[1].as<float>()) b = -1;
  test.inputs[0].as<float>()[5] = NAN;
  expect_same_bits(std::move(test));
}

TEST(Activation, ASumIsPartOfTheNormalizationBefore) {
  Random random(4);
  for (const Shape& shape : batch_norm_shapes()) {
    for (const bool training : {true, false}) {
      OpCase norm = batch_norm_case(shape, training, random);
      std::map<std::string, std::vector<Tensor>> apart;
      for (const char* backend : {"eigen", "simd"}) apart.emplace(backend, run_on(backend, norm).value());
      OpCase sum = adding(std::move(norm), random);
      for (auto& [backend, expected] : apart) {
        const auto added = sum.inputs.back().as<float>();
        const auto y = expected.at(0).as<float>();
        std::ranges::transform(y, added, y.begin(), std::plus());
        EXPECT_TRUE(same_bits(expected.at(0), run_on(backend, sum)->at(0)))
            << backend << " " << describe(sum);
      }
      expect_same_bits(std::move(sum));
    }
  }
}

}  // namespace
}  // namespace rookery::kernel_tests
