#include "models/io/onnx/onnx.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "models/graph/op_definition.hpp"
#include "models/graph/stage.hpp"
#include "models/graph/state/initialize.hpp"
#include "tests/models/io/files.hpp"
#include "tests/models/io/onnx/onnx_models.hpp"
#include "tests/support/equal_states.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> result;
  for (const ValueId id : ids) result.push_back(id == kNoValue ? "" : graph.value(id).name);
  return result;
}

void expect_equal(const Graph& a, const Graph& b) {
  EXPECT_EQ(names(a, a.inputs()), names(b, b.inputs()));
  EXPECT_EQ(names(a, a.outputs()), names(b, b.outputs()));
  EXPECT_EQ(names(a, a.parameters()), names(b, b.parameters()));
  EXPECT_EQ(names(a, a.buffers()), names(b, b.buffers()));
  EXPECT_EQ(names(a, a.constants()), names(b, b.constants()));
  ASSERT_EQ(a.ops().size(), b.ops().size());
  for (std::size_t i = 0; i < a.ops().size(); ++i) {
    const Op& expected = a.ops()[i];
    const Op& op = b.ops()[i];
    EXPECT_EQ(expected.name, op.name);
    EXPECT_EQ(expected.type, op.type);
    EXPECT_EQ(expected.attributes, op.attributes) << op.name;
    EXPECT_EQ(names(a, expected.inputs), names(b, op.inputs)) << op.name;
    EXPECT_EQ(names(a, expected.outputs), names(b, op.outputs)) << op.name;
  }
  for (const Value& value : a.values()) {
    if (value.producer != kNoOp) continue;
    const Value& other = b.value(b.at(value.name));
    EXPECT_EQ(value.type, other.type) << value.name;
    ASSERT_EQ(value.kind, other.kind) << value.name;
    if (value.kind != ValueKind::kConstant) continue;
    EXPECT_TRUE(std::ranges::equal(value.data->view().bytes(), other.data->view().bytes())) << value.name;
  }
}

class Onnx : public testing::Test {
 protected:
  OnnxModel round_trip(const Graph& graph, const StateDict& state) {
    write_onnx(path_, "model.safetensors", graph, state);
    return read_onnx(path_);
  }

  ScratchFolder folder_;
  std::filesystem::path path_ = folder_.path() / "model.onnx";
};

TEST_F(Onnx, RoundTrip) {
  const Graph graph = small_model();
  const StateDict state = trained_state(graph);
  const OnnxModel model = round_trip(graph, state);
  expect_equal(graph, model.graph);
  expect_equal(state, model.state);
  EXPECT_EQ(graph.types(3).back().to_string(), model.graph.types(3).back().to_string());
}

TEST_F(Onnx, EveryOperatorRoundTrips) {
  for (const auto build : {elementwise_model, window_model, series_model}) {
    const Graph graph = build();
    const StateDict state = trained_state(graph);
    const OnnxModel model = round_trip(graph, state);
    expect_equal(graph, model.graph);
    expect_equal(state, model.state);
  }
}

TEST_F(Onnx, ConstantsAndWhatMovesElementsRoundTrip) {
  const Graph graph = moving_model();
  const StateDict state = trained_state(graph);
  const OnnxModel model = round_trip(graph, state);
  expect_equal(graph, model.graph);
  expect_equal(state, model.state);
}

// A call of a function has all attributes, whether the op had them or not.
TEST_F(Onnx, FunctionsRoundTrip) {
  for (Graph (*const build)() : {transformer_model, heads_model, recurrent_model}) {
    const Graph graph = build();
    const StateDict state = trained_state(graph);
    const OnnxModel model = round_trip(graph, state);
    expect_equal(state, model.state);
    expect_equal(model.graph, round_trip(model.graph, state).graph);
    EXPECT_EQ(graph.types(3).back(), model.graph.types(3).back());
    ASSERT_EQ(graph.ops().size(), model.graph.ops().size());
    for (std::size_t i = 0; i < graph.ops().size(); ++i) {
      const Op& op = model.graph.ops()[i];
      EXPECT_EQ(graph.ops()[i].type, op.type);
      EXPECT_EQ(names(graph, graph.ops()[i].inputs), names(model.graph, op.inputs)) << op.name;
      for (const auto& [key, value] : graph.ops()[i].attributes)
        EXPECT_EQ(op.attributes.at(key), value) << key;
    }
  }
  const Graph read = round_trip(transformer_model(), trained_state(transformer_model())).graph;
  const auto packed = std::ranges::find(read.ops(), "packed", &Op::name);
  ASSERT_NE(packed, read.ops().end());
  EXPECT_EQ(packed->number("scale", 0), 0.5F) << "1 / sqrt(4)";
  EXPECT_EQ(packed->number("ratio", 0), 0.25F) << "which training reads";
}

// Three initializers as the nodes that make the same.
TEST_F(Onnx, NodesThatMakeConstantsAreConstants) {
  const Graph graph = moving_model();
  write_onnx(path_, "model.safetensors", graph, trained_state(graph));
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(read_file(path_, 1 << 20)));
  auto& initializers = *model.mutable_graph()->mutable_initializer();
  const auto find = [&](const std::string& name) {
    return std::ranges::find(initializers, name, [](const auto& tensor) { return tensor.name(); });
  };
  const auto add = [&](const std::string& name, std::vector<std::int64_t> numbers, bool is_list) {
    onnx::TensorProto& tensor = *initializers.Add();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::INT64);
    if (is_list) tensor.add_dims(std::ssize(numbers));
    tensor.set_raw_data(numbers.data(), numbers.size() * sizeof(std::int64_t));
  };
  std::vector<onnx::NodeProto> made(3);
  made[0].set_op_type("Constant");
  made[0].add_output("mask");
  onnx::AttributeProto& value = *made[0].add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  *value.mutable_t() = *find("mask");
  made[1].set_op_type("ConstantOfShape");
  made[1].add_input("shape_of_least");
  made[1].add_output("least_value");
  *made[1].add_attribute() = value;
  onnx::TensorProto& one = *made[1].mutable_attribute(0)->mutable_t();
  one = *find("half");
  one.set_raw_data(find("least_value")->raw_data().substr(0, sizeof(float)));
  made[2].set_op_type("Range");
  for (const char* name : {"from", "to", "by"}) made[2].add_input(name);
  made[2].add_output("order");
  for (const char* name : {"mask", "least_value", "order"}) initializers.erase(find(name));
  add("shape_of_least", {3}, true);
  add("from", {2}, false);
  add("to", {-1}, false);
  add("by", {-1}, false);
  auto& nodes = *model.mutable_graph()->mutable_node();
  for (onnx::NodeProto& node : made) *nodes.Add() = node;
  std::rotate(nodes.begin(), nodes.end() - 3, nodes.end());
  overwrite(path_, model.SerializeAsString());
  const Graph read = read_onnx(path_).graph;
  for (const ValueId id : graph.constants()) {
    const Value& expected = graph.value(id);
    const Value& actual = read.value(read.at(expected.name));
    ASSERT_EQ(actual.kind, ValueKind::kConstant) << expected.name;
    EXPECT_EQ(actual.type, expected.type) << expected.name;
    EXPECT_TRUE(std::ranges::equal(actual.data->view().bytes(), expected.data->view().bytes()))
        << expected.name;
  }
  EXPECT_EQ(read.ops().size(), graph.ops().size());
  const auto error_with = [&](std::int64_t limit, std::int64_t step) {
    for (const auto& [name, number] : {std::pair{"to", limit}, std::pair{"by", step}})
      find(name)->set_raw_data(&number, sizeof number);
    overwrite(path_, model.SerializeAsString());
    return data_error([&] { read_onnx(path_); });
  };
  EXPECT_THAT(error_with(-1, 0), HasSubstr("nothing lies from 2 to -1 in steps of 0"));
  EXPECT_THAT(error_with(std::numeric_limits<std::int64_t>::min(), -1), HasSubstr("makes more than"));
  EXPECT_THAT(error_with(-(1 << 24), -1), HasSubstr("makes a constant of"));
}

TEST_F(Onnx, WhatTheOperatorSetLacksIsRefused) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {kBatch, 3}});
  const OpId op = graph.add_op({.name = "relu", .type = "ReluGrad", .inputs = {x, x}}, {});
  graph.mark_output(graph.add_output_like(op, "y", x));
  EXPECT_THAT([&] { write_onnx(path_, "model.safetensors", graph, {}); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("op 'relu' (ReluGrad)")));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Onnx, StagesRoundTrip) {
  const Graph graph = small_model();
  const StateDict state = trained_state(graph);
  const std::vector<OpId> cuts = cut_positions(graph);
  ASSERT_GE(cuts.size(), 3U);
  std::size_t tensors = 0;
  for (const Stage& stage : cut(graph, std::vector<OpId>{0, cuts[1], cuts[cuts.size() - 2]})) {
    StateDict of_stage;
    for (const auto& [name, tensor] : state) {
      if (stage.graph.find(name)) of_stage.emplace(name, tensor.clone());
    }
    tensors += of_stage.size();
    const OnnxModel model = round_trip(stage.graph, of_stage);
    expect_equal(stage.graph, model.graph);
    expect_equal(of_stage, model.state);
  }
  EXPECT_EQ(tensors, state.size());
}

TEST_F(Onnx, LossAndWhatOnlyItReadsStayOut) {
  const Graph plain = small_model();
  Graph graph = small_model();
  add_loss(graph, "mse");
  const StateDict state = trained_state(graph);
  expect_equal(plain, round_trip(graph, state).graph);
  // On the first of two stages labels and sample ids pass through.
  const std::vector<Stage> stages = cut(graph, std::vector<OpId>{0, cut_positions(graph)[2]});
  StateDict of_stage;
  for (const auto& [name, tensor] : state) {
    if (stages[0].graph.find(name)) of_stage.emplace(name, tensor.clone());
  }
  const Graph first = round_trip(stages[0].graph, of_stage).graph;
  EXPECT_THAT(names(first, first.inputs()), ElementsAre("x"));
  EXPECT_FALSE(first.find(kLabels));
}

TEST_F(Onnx, AbsentAttributesAndInputsStayAbsent) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {kBatch, 3}});
  const ValueId w = graph.add_parameter("w", {DType::kF32, {3, 2}});
  const OpId gemm = graph.add_op({.name = "gemm", .type = "Gemm", .inputs = {x, w, kNoValue}}, {"y"});
  const OpId drop =
      graph.add_op({.name = "drop", .type = "Dropout", .inputs = {graph.op(gemm).outputs[0]}}, {"z"});
  graph.mark_output(graph.op(drop).outputs[0]);
  expect_equal(graph, round_trip(graph, initial_state(graph, 1)).graph);
}

TEST_F(Onnx, StateMustFitTheGraph) {
  const Graph graph = small_model();
  StateDict state = trained_state(graph);
  state.erase("conv.bias");
  EXPECT_THAT(data_error([&] { write_onnx(path_, "model.safetensors", graph, state); }),
              HasSubstr("'conv.bias' is missing"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Onnx, OnlyGraphsForInferenceAreWritten) {
  Graph graph = small_model();
  for (std::size_t i = 0; i < graph.ops().size(); ++i) {
    if (graph.ops()[i].type == "MaxPool") op_definition("MaxPool").to_training(graph, static_cast<OpId>(i));
  }
  const StateDict state = trained_state(graph);
  EXPECT_THROW(write_onnx(path_, "model.safetensors", graph, state), ConfigError);
}

TEST_F(Onnx, WeightsLieInTheSameFolder) {
  const Graph graph = small_model();
  const StateDict state = trained_state(graph);
  EXPECT_THROW(write_onnx(path_, "../model.safetensors", graph, state), ConfigError);
  EXPECT_THROW(write_onnx(path_, "", graph, state), ConfigError);
}

}  // namespace
}  // namespace rookery
