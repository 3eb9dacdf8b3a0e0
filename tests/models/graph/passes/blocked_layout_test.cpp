#include "models/graph/passes/blocked_layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/base/error.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/differentiate.hpp"
#include "tests/support/graph_names.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;

// Uses of `trunk`: blocked, plain, plain, blocked, blocked.
Graph branches() {
  GraphBuilder b;
  const ValueId trunk = b.conv2d("trunk", b.input("input", {3, 8, 8}), 16);
  ValueId x = b.conv2d("first", trunk, 16);
  x = b.add("sum_1", x, b.softmax("plain_1", trunk));
  x = b.add("sum_2", x, b.softmax("plain_2", trunk));
  x = b.add("sum_3", x, b.conv2d("second", trunk, 16));
  return b.finish(b.add("sum_4", x, trunk));
}

const std::set<std::string> kConvolutions{"trunk", "first", "second"};

TEST(BlockedLayout, ConvertsAtTheEndsOfAChainAndKeepsTheNamesOfTheBoundary) {
  GraphBuilder b;
  ValueId x = b.conv2d("conv_1", b.input("input", {3, 8, 8}), 32);
  x = b.relu("relu", b.batch_norm("bn", x));
  x = b.max_pool2d("pool", b.conv2d("conv_2", x, 16), 2, 2);
  const Graph graph = b.finish(x);
  const Graph blocked = with_blocked_layout(graph, {"conv_1", "bn", "relu", "conv_2", "pool"}, {});
  EXPECT_THAT(op_names(blocked),
              ElementsAre("conv_1", "bn", "relu", "conv_2", "pool", "pool_out.FromBlocked"));
  const auto types = blocked.types(5);
  const auto type = [&](const char* name) { return types[blocked.at(name)]; };
  EXPECT_EQ(type("conv_1_out.blocked").shape, (Shape{5, 2, 8, 8, 16}));
  EXPECT_EQ(type("pool_out").shape, (Shape{5, 16, 4, 4}));
  EXPECT_EQ(type("conv_2.weight").shape, (Shape{16, 32, 3, 3}));
  EXPECT_EQ(blocked.outputs(), std::vector<ValueId>{blocked.at("pool_out")});
  EXPECT_EQ(blocked.inputs(), std::vector<ValueId>{blocked.at("input")});
}

// The order in which the gradient of the trunk is summed is that of the plain graph when every use before
// the last run has a conversion of its own.
TEST(BlockedLayout, OnlyTheLastUsesShareAConversion) {
  const Graph from_blocked = with_blocked_layout(branches(), kConvolutions, {});
  EXPECT_THAT(
      op_names(from_blocked),
      ElementsAre("trunk", "first", "trunk_out.for.plain_1.0.FromBlocked", "plain_1", "first_out.FromBlocked",
                  "sum_1", "trunk_out.for.plain_2.0.FromBlocked", "plain_2", "sum_2", "second",
                  "second_out.FromBlocked", "sum_3", "trunk_out.FromBlocked", "sum_4"));
  // The other way round: a plain trunk whose last two uses are blocked share one.
  GraphBuilder b;
  const ValueId trunk = b.sigmoid("trunk", b.input("input", {16, 8, 8}));
  ValueId x = b.conv2d("first", trunk, 16);
  x = b.add("sum_1", x, trunk);
  x = b.add("sum_2", x, b.conv2d("second", trunk, 16));
  const Graph plain = b.finish(b.add("sum_3", x, b.conv2d("third", trunk, 16)));
  const std::set<std::string> ops{"first", "second", "third"};
  const auto conversions = [](const Graph& graph) {
    return std::ranges::count(graph.ops(), "ToBlocked", &Op::type);
  };
  EXPECT_EQ(conversions(with_blocked_layout(plain, ops, {})), 2);
  // Not when another stage's share of the gradient comes first.
  EXPECT_EQ(conversions(with_blocked_layout(plain, ops, {plain.at("trunk_out")})), 3);
}

TEST(BlockedLayout, AnOpThatKnowsNoBlocksStaysPlain) {
  const Graph graph = branches();
  EXPECT_EQ(op_names(with_blocked_layout(graph, {"plain_1", "nobody"}, {})), op_names(graph));
}

TEST(BlockedLayout, ChannelsThatMakeNoBlocksAreRefused) {
  GraphBuilder b;
  const Graph graph = b.finish(b.conv2d("conv", b.input("input", {16, 8, 8}), 24));
  EXPECT_THAT([&] { with_blocked_layout(graph, {"conv"}, {}).types(2); },
              testing::ThrowsMessage<ConfigError>(
                  testing::AllOf(testing::HasSubstr("'conv'"), testing::HasSubstr("[2, 24, 8, 8]"))));
}

TEST(BlockedLayout, AConversionIsTheOthersGradient) {
  const Graph graph = with_blocked_layout(branches(), kConvolutions, {});
  const TrainingGraph training = differentiate(graph, {.inputs = {}, .received = {graph.at("sum_4_out")}});
  EXPECT_NO_THROW(training.graph.types(3));
  EXPECT_TRUE(training.graph.has_op("trunk_out.FromBlocked.ToBlocked"));
}

}  // namespace
}  // namespace rookery
