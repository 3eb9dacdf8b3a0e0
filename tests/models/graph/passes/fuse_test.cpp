#include "models/graph/passes/fuse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/graph/op_attributes.hpp"
#include "models/graph/ops/batch_norm.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/differentiate.hpp"
#include "tests/support/graph_names.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;

TEST(Fuse, AReluBecomesPartOfWhatItFollows) {
  GraphBuilder builder;
  ValueId x = builder.input("image", {3, 8, 8});
  x = builder.relu("relu_1", builder.conv2d("conv", x, 4));
  const ValueId skip = x;
  x = builder.relu("relu_2", builder.batch_norm("bn", x));
  x = builder.relu("relu_3", builder.add("add", x, skip));
  x = builder.relu("relu_4", builder.linear("fc", builder.flatten("flatten", x), 10));
  const Graph graph = builder.finish(x);
  const Graph fused = fuse(graph);
  EXPECT_THAT(op_types(fused), ElementsAre("Conv", "BatchNormalization", "Add", "Flatten", "Gemm"));
  EXPECT_EQ(fused.op(0).text(kActivation, ""), "relu");
  EXPECT_EQ(fused.op(0).text(kActivationOp, ""), "relu_1");
  EXPECT_EQ(fused.value(fused.outputs().at(0)).name, graph.value(graph.outputs().at(0)).name);
  EXPECT_TRUE(has_activation(fused.op(4)));
  EXPECT_FALSE(has_activation(fused.op(3)));
  EXPECT_EQ(fused.parameters().size(), graph.parameters().size());
  EXPECT_EQ(fused.buffers().size(), graph.buffers().size());
}

TEST(Fuse, ASumBecomesPartOfTheNormalizationBefore) {
  GraphBuilder builder;
  const ValueId x = builder.input("image", {4, 8, 8});
  const auto normalized = [&](const std::string& name, ValueId from) {
    return builder.batch_norm("bn_" + name, builder.conv2d("conv_" + name, from, 4));
  };
  const ValueId first = normalized("1", x);
  ValueId y = builder.relu("relu_1", builder.add("add_1", first, normalized("2", x)));
  y = builder.relu("relu_2", builder.add("add_2", y, normalized("3", y)));
  const ValueId largest = builder.max_pool2d("pool", y, 8, 8);
  y = builder.add("add_3", largest, normalized("4", y));  // of two shapes
  const Graph graph = builder.finish(builder.flatten("flatten", y));
  const Graph fused = fuse(graph);
  EXPECT_THAT(op_types(fused),
              ElementsAre("Conv", "BatchNormalization", "Conv", "BatchNormalization", "Conv",
                          "BatchNormalization", "MaxPool", "Conv", "BatchNormalization", "Add", "Flatten"));
  const auto expect_sum = [&](OpId op, const char* name, const char* added, const char* output) {
    const Op& sum = fused.op(op);
    EXPECT_EQ(sum.name, name);
    ASSERT_EQ(sum.inputs.size(), 7U);
    EXPECT_EQ(fused.value(sum.inputs[kBatchNormAdded]).name, added);
    EXPECT_EQ(fused.value(sum.outputs[0]).name, output);
    EXPECT_TRUE(has_activation(sum));
  };
  expect_sum(3, "bn_2", "bn_1_out", "relu_1_out");
  expect_sum(5, "bn_3", "relu_1_out", "relu_2_out");
  EXPECT_LT(fused.op(1).inputs.size(), 7U);
  EXPECT_LT(fused.op(8).inputs.size(), 7U);
}

// The order of gradients in sums would be another one.
TEST(Fuse, NotWhereAnOpBetweenReadsWhatIsNormalized) {
  GraphBuilder builder;
  const ValueId x = builder.input("image", {4, 8, 8});
  const ValueId norm = builder.batch_norm("bn", x);
  const ValueId branch = builder.conv2d("conv", x, 4);
  const Graph graph = builder.finish(builder.flatten("flatten", builder.add("add", norm, branch)));
  EXPECT_THAT(op_types(fuse(graph)), ElementsAre("BatchNormalization", "Conv", "Add", "Flatten"));
}

TEST(Fuse, NotWhenSomebodyElseReadsTheValueBetween) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {5});
  const ValueId hidden = builder.linear("fc", x, 5);
  const Graph twice = builder.finish(builder.mul("mul", builder.relu("relu", hidden), hidden));
  EXPECT_THAT(op_types(fuse(twice)), ElementsAre("Gemm", "Relu", "Mul"));

  GraphBuilder other;
  const ValueId leaves = other.linear("fc", other.input("x", {5}), 5);
  other.relu("relu", leaves);
  Graph boundary = other.finish(leaves);
  EXPECT_THAT(op_types(fuse(boundary)), ElementsAre("Gemm", "Relu"));
}

TEST(Fuse, AReluMovesBehindTheMaxPoolThatReadsIt) {
  GraphBuilder builder;
  ValueId x = builder.input("image", {3, 8, 8});
  x = builder.relu("relu_1", builder.conv2d("conv_1", x, 4));
  x = builder.max_pool2d("pool_1", x, 2, 2);
  const ValueId branch = builder.relu("relu_2", builder.conv2d("conv_2", x, 4));
  x = builder.add("add", builder.max_pool2d("pool_2", branch, 2, 2),
                  builder.max_pool2d("pool_3", branch, 2, 2));
  const Graph graph = builder.finish(x);
  const Graph fused = fuse(graph);
  EXPECT_THAT(op_types(fused), ElementsAre("Conv", "MaxPool", "Conv", "MaxPool", "MaxPool", "Add"));
  EXPECT_FALSE(has_activation(fused.op(0)));
  EXPECT_EQ(fused.op(1).text(kActivationOp, ""), "relu_1");
  EXPECT_EQ(fused.op(1).inputs, fused.op(0).outputs);
  EXPECT_TRUE(has_activation(fused.op(2)));  // two read it
  EXPECT_FALSE(has_activation(fused.op(3)));
}

TEST(Fuse, GradientsGoThroughTheActivationFirst) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {5});
  const Graph graph = builder.finish(builder.relu("relu", builder.linear("fc", x, 3)));
  const Graph fused = fuse(graph);
  const TrainingGraph training = differentiate(fused, {.inputs = {}, .received = {fused.outputs().at(0)}});
  ASSERT_THAT(op_types(training.graph), ElementsAre("Gemm", "ReluGrad", "GemmGradWeight"));
  const Op& relu = training.graph.op(1);
  const Op& weight = training.graph.op(2);
  EXPECT_EQ(relu.name, "relu.ReluGrad");
  EXPECT_EQ(relu.text("forward", ""), "relu");
  EXPECT_EQ(weight.inputs.at(0), relu.outputs.at(0));
  EXPECT_FALSE(has_activation(weight));
}

}  // namespace
}  // namespace rookery
