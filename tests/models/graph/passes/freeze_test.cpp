// What is not trained: no gradients, no cost of backward, no bond between stages.
#include "models/graph/passes/freeze.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/base/error.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/cost.hpp"
#include "models/graph/passes/differentiate.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/stage.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

// Three linear layers, with a table that the first and the last read.
Graph three_layers(bool with_detach = false) {
  GraphBuilder build;
  ValueId x = build.input("x", {4});
  const ValueId table = build.parameter("table", {4}, {});
  x = build.add("shift", build.linear("first", x, 4), table);
  x = build.linear("second", x, 4);
  if (with_detach) x = build.apply("detach", "Detach", {x});
  x = build.linear("third", build.add("again", x, table), 3);
  Graph graph = build.finish(x);
  add_loss(graph, "mse");
  return graph;
}

std::vector<std::string> trained(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& [parameter, uses] : differentiate(graph, {}).parameter_gradients)
    names.push_back(graph.value(parameter).name);
  return names;
}

std::string refusal(const std::vector<std::string>& frozen, const std::vector<std::string>& only = {}) {
  Graph graph = three_layers();
  try {
    choose_trained(graph, frozen, only, {});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Freeze, PatternsFixAndTrainAgain) {
  Graph graph = three_layers();
  choose_trained(graph, {"*"}, {"third.*", "table"}, {});
  EXPECT_THAT(trained(graph), testing::UnorderedElementsAre("third.weight", "third.bias", "table"));
  EXPECT_TRUE(graph.value(graph.at("first.weight")).fixed);
  choose_trained(graph, {}, {"first.weight"}, {});
  EXPECT_EQ(graph.value(graph.parameters().front()).name, "table");  // in the graph's order
  EXPECT_THAT(trained(graph), testing::Contains("first.weight"));
}

TEST(Freeze, StatisticsAreNoParameters) {
  Graph graph;
  const TensorType row{DType::kF32, {4}};
  const std::vector<ValueId> of_norm{graph.add_input("x", {DType::kF32, {kBatch, 4}}),
                                     graph.add_parameter("weight", row), graph.add_parameter("bias", row),
                                     graph.add_fixed("mean", row), graph.add_fixed("variance", row)};
  graph.add_op({.name = "norm",
                .type = "BatchNormalization",
                .inputs = of_norm,
                .outputs = {},
                .attributes = {{"epsilon", 1e-5F}, {"momentum", 0.9F}}},
               {"y"});
  choose_trained(graph, {"weight"}, {"*"}, {});
  EXPECT_EQ(graph.parameters().size(), 2U);
  EXPECT_THROW(choose_trained(graph, {}, {"mean"}, {}), ConfigError);
}

TEST(Freeze, ClustersAverageWhatIsTrained) {
  Graph graph = three_layers();
  choose_trained(graph, {"*"}, {"third.*"}, {});
  EXPECT_EQ(averaged_values(graph), graph.parameters());
  EXPECT_EQ(graph.parameters().size(), 2U);
}

TEST(Freeze, PatternsThatFitNothingAreNamedWithWhatThereIs) {
  EXPECT_THAT(refusal({"thrid.*"}),
              AllOf(HasSubstr("frozen: no parameter is called 'thrid.*'"), HasSubstr("third.")));
  EXPECT_THAT(refusal({}, {"head"}), HasSubstr("trained: no parameter is called 'head'"));
  EXPECT_THAT(refusal({"*"}), HasSubstr("no parameter is left to train"));
}

TEST(Freeze, WhatNoGradientReachesIsFixed) {
  Graph graph = three_layers(true);
  freeze_unreached(graph);
  EXPECT_THAT(trained(graph), testing::UnorderedElementsAre("third.weight", "third.bias", "table"));
  EXPECT_EQ(graph.parameters().size(), 3U);
  EXPECT_TRUE(graph.value(graph.at("second.bias")).fixed);
  choose_trained(graph, {"third.*", "table"}, {"first.weight"}, {});
  EXPECT_THROW(freeze_unreached(graph), ConfigError);
}

TEST(Freeze, BuffersOfAModuleAreNoParameters) {
  Graph graph = three_layers();
  graph.set_trained(graph.at("table"), false);
  choose_trained(graph, {}, {"*"}, {"table"});
  EXPECT_TRUE(graph.value(graph.at("table")).fixed);
  EXPECT_THROW(choose_trained(graph, {}, {"table"}, {"table"}), ConfigError);
}

TEST(Freeze, NothingRunsBackwardBelowTheLowestTrainedParameter) {
  Graph graph = three_layers();
  choose_trained(graph, {"*"}, {"third.*"}, {});
  const std::vector<OpCost> costs = op_costs(graph, 8);
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const std::string& name = graph.ops()[i].name;
    const bool is_below = name == "first" || name == "shift" || name == "second" || name == "again";
    if (is_below) {
      EXPECT_EQ(costs[i].backward_flops, 0) << name;
    } else if (name == "third") {
      EXPECT_GT(costs[i].backward_flops, 0);
    }
  }
  for (const auto& [value, users] : gradient_users(graph)) {
    EXPECT_THAT(graph.value(value).name, testing::Not(HasSubstr("first"))) << "has a gradient";
  }
}

TEST(Freeze, StagesThatAreFrozenSendAndAwaitNoGradients) {
  Graph graph = three_layers();
  choose_trained(graph, {"*"}, {"third.*"}, {});
  const std::vector<OpId> positions = cut_positions(graph);
  const std::vector<Stage> stages = cut(graph, std::vector<OpId>{0, positions.front(), positions.back()});
  for (const Stage& stage : stages) {
    EXPECT_TRUE(stage.shared.empty());
    for (const StageInput& input : stage.inputs) EXPECT_EQ(input.gradient_to, kNoStage) << input.value;
  }
  EXPECT_TRUE(stages[0].owned_parameters().empty());
}

// As a parameter it is shared and exchanged; fixed, each stage has it.
TEST(Freeze, WhatIsFixedMayBeOnSeveralStages) {
  Graph graph = three_layers();
  graph.set_trained(graph.at("table"), false);
  std::size_t with_table = 0;
  std::vector<OpId> begins{0};
  for (const OpId position : cut_positions(graph)) begins.push_back(position);
  for (const Stage& stage : cut(graph, begins)) {
    const auto table = stage.graph.find("table");
    if (table) {
      ++with_table;
      EXPECT_TRUE(stage.graph.value(*table).fixed);
    }
    EXPECT_TRUE(stage.shared.empty());
  }
  EXPECT_EQ(with_table, 2);
}

TEST(Detach, StopsGradients) {
  EXPECT_THAT(trained(three_layers(true)),
              testing::UnorderedElementsAre("third.weight", "third.bias", "table"));
}

// Its statistics are fixed: it stays as in evaluation, and its scale and shift are trained.
TEST(Freeze, BatchNormByRunningStatistics) {
  GraphBuilder build;
  ValueId x = build.batch_norm("norm", build.linear("first", build.input("x", {4}), 4));
  Graph moving = build.finish(build.linear("last", x, 3));
  add_loss(moving, "mse");
  Graph graph;
  for (const Value& value : moving.values()) {
    if (value.kind == ValueKind::kActivation) continue;
    if (value.name.ends_with("running_mean") || value.name.ends_with("running_var")) {
      graph.add_fixed(value.name, value.type, value.initializer);
    } else {
      graph.add_source(value);
    }
  }
  for (const Op& op : moving.ops()) {
    Op copy = op;
    copy.outputs.clear();
    for (ValueId& input : copy.inputs)
      input = input == kNoValue ? kNoValue : graph.at(moving.value(input).name);
    std::vector<std::string> names;
    for (const ValueId output : op.outputs) names.push_back(moving.value(output).name);
    graph.add_op(std::move(copy), names);
  }
  const TrainingGraph training = differentiate(graph, {});
  const auto norm = std::ranges::find(training.graph.ops(), "BatchNormalization", &Op::type);
  EXPECT_EQ(norm->outputs.size(), 1);
  EXPECT_EQ(norm->integer("training_mode", 0), 0);
  EXPECT_THAT(trained(graph), testing::IsSupersetOf({"first.weight", "norm.weight", "norm.bias"}));
}

}  // namespace
}  // namespace rookery
