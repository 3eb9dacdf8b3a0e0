#include "trainer/progress/tensorboard/graph_def.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorboard_events.pb.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include "models/graph/passes/loss.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::MatchesRegex;
using testing::Not;

std::map<std::string, tensorboard::Node> nodes_of(const Graph& graph) {
  tensorboard::GraphDef def;
  EXPECT_TRUE(def.ParseFromString(graph_def(graph, [](const Op& op) { return "where " + op.type + " is"; })));
  std::map<std::string, tensorboard::Node> nodes;
  for (const tensorboard::Node& node : def.node())
    EXPECT_TRUE(nodes.emplace(node.name(), node).second) << node.name() << " is there twice";
  return nodes;
}

const tensorboard::Attribute& attribute(const tensorboard::Node& node, const std::string& key) {
  const auto found = std::ranges::find(node.attr(), key, &tensorboard::NamedAttribute::key);
  if (found == node.attr().end()) throw std::out_of_range(key);
  return found->value();
}

Graph drawn_model() {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {kBatch, 4}});
  const ValueId weight = graph.add_parameter("blocks.0.fc.weight", {DType::kF32, {2, 4}});
  graph.add_op({.name = "blocks.0.fc",
                .type = "Gemm",
                .inputs = {x, weight},
                .attributes = {{"transB", std::int64_t{1}}}},
               {"y"});
  graph.add_op({.name = "/act/Relu", .type = "Relu", .inputs = {graph.at("y")}}, {"z"});
  graph.mark_output(graph.at("z"));
  return graph;
}

TEST(GraphDef, IsTheSameBytesForTheSameGraph) {
  const auto bytes = [] { return graph_def(resnet18(), [](const Op&) { return "here"; }); };
  const std::string first = bytes();
  for (int again = 0; again < 5; ++again) EXPECT_TRUE(bytes() == first);
}

TEST(GraphDef, HasOpsParametersAndShapesByTheirModules) {
  const auto nodes = nodes_of(drawn_model());
  ASSERT_EQ(nodes.size(), 4U);
  EXPECT_EQ(nodes.at("x").op(), "Input");
  EXPECT_EQ(nodes.at("x").device(), "") << "data is of no op";
  EXPECT_EQ(nodes.at("blocks/0/fc/weight").op(), "Parameter");
  EXPECT_EQ(nodes.at("blocks/0/fc/weight").device(), "where Gemm is");
  const tensorboard::Node& product = nodes.at("blocks/0/fc");
  EXPECT_EQ(product.op(), "Gemm");
  EXPECT_EQ(attribute(product, "transB").i(), 1);
  EXPECT_THAT(product.input(), ElementsAre("x", "blocks/0/fc/weight"));
  const auto& shape = attribute(product, "_output_shapes").list().shape(0);
  ASSERT_EQ(shape.dim_size(), 2);
  EXPECT_EQ(shape.dim(0).size(), -1);
  EXPECT_EQ(shape.dim(1).size(), 2);
  EXPECT_THAT(nodes.at("act/Relu").input(), ElementsAre("blocks/0/fc"));
}

TEST(GraphDef, EveryInputIsANodeWithAName) {
  for (const char* name : {"cnn_net", "resnet18", "gpt"}) {
    SCOPED_TRACE(name);
    const auto nodes = nodes_of(zoo_model(name));
    EXPECT_GT(nodes.size(), 8U);
    for (const auto& [node_name, node] : nodes) {
      EXPECT_THAT(node_name, MatchesRegex("[A-Za-z0-9][A-Za-z0-9_/-]*"));
      for (const std::string& input : node.input())
        EXPECT_TRUE(nodes.contains(input.substr(0, input.find(':')))) << input;
    }
  }
}

}  // namespace
}  // namespace rookery
