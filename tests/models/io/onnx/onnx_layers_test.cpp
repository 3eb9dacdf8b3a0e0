// Layers with weights put together by hand: recurrent ones, and weights that the file does not have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "models/graph/state/initialize.hpp"
#include "models/io/onnx/onnx.hpp"
#include "tests/models/io/onnx/hand_made.hpp"

namespace rookery {
namespace {

using onnx_tests::HandMade;
using testing::HasSubstr;

TEST_F(HandMade, RecurrentLayersThatAreNotSupportedAreRefused) {
  model_.mutable_graph()->clear_output();
  add_type(*model_.mutable_graph()->add_output(), "y", {-1, 3});
  const auto layer = [&](const std::string& type, std::int64_t gates, const std::vector<std::string>& more) {
    model_.mutable_graph()->clear_node();
    model_.mutable_graph()->clear_initializer();
    add_integers("first", {0});
    add_floats("rnn.w", {1, gates * 3, 4}, 0.1F);
    add_floats("rnn.r", {1, gates * 3, 3}, 0.1F);
    add("Unsqueeze", {"x", "first"}, {"steps"});
    std::vector<std::string> inputs{"steps", "rnn.w", "rnn.r"};
    inputs.insert(inputs.end(), more.begin(), more.end());
    onnx::NodeProto& node = add(type, inputs, {"", "last"});
    set_integer(node, "hidden_size", 3);
    add("Squeeze", {"last", "first"}, {"y"});
    return &node;
  };
  layer("GRU", 3, {});
  EXPECT_EQ(import().graph.parameters().size(), 2U);
  const auto refused = [&](onnx::NodeProto*, const std::string& because) {
    EXPECT_THAT(error(), HasSubstr(because));
  };
  onnx::NodeProto* node = layer("GRU", 3, {});
  set_integer(*node, "layout", 1);
  refused(node, "attribute \"layout\" is not supported");
  node = layer("GRU", 3, {});
  set_text(*node, "direction", "sideways");
  refused(node, "no direction 'sideways'");
  node = layer("LSTM", 4, {});
  onnx::AttributeProto& functions = *node->add_attribute();
  functions.set_name("activations");
  functions.set_type(onnx::AttributeProto::STRINGS);
  for (const char* function : {"HardSigmoid", "Tanh", "Tanh"}) functions.add_strings(function);
  refused(node, "its functions are HardSigmoid,Tanh,Tanh");
  node = layer("LSTM", 4, {"", "lengths"});
  add_integers("lengths", {1, 1});
  refused(node, "sequences of different lengths");
  node = layer("LSTM", 4, {"", "", "", "", "rnn.p"});
  add_floats("rnn.p", {1, 9}, 0.1F);
  refused(node, "has peepholes");
  node = layer("LSTM", 3, {});
  refused(node, "its input 1 is");
  set_text(*layer("RNN", 1, {}), "direction", "bidirectional");
  refused(node, "not of 2 directions");
}

TEST_F(HandMade, RecurrentLayersNeedTheirInputs) {
  add_floats("rnn.w", {1, 12, 4}, 0.1F);
  add_floats("rnn.flat", {12}, 0.1F);
  add_integers("first", {0});
  add("Unsqueeze", {"x", "first"}, {"steps"});
  onnx::NodeProto& node = add("LSTM", {"steps"}, {"y"});
  const auto expect_refused = [&](const std::vector<std::string>& inputs, const std::string& because) {
    node.mutable_input()->Clear();
    for (const std::string& input : inputs) node.add_input(input);
    EXPECT_THAT(error(), HasSubstr(because));
  };
  expect_refused({}, "lacks its input 0");
  expect_refused({"steps"}, "lacks its input 1");
  expect_refused({"steps", "rnn.w"}, "lacks its input 2");
  expect_refused({"x", "rnn.w", "rnn.w"}, "its input 0 is f32[2, 4], not of rank 3");
  expect_refused({"steps", "rnn.w", "rnn.flat"}, "its input 2 is f32[12], not of rank 3");
  expect_refused({"steps", "rnn.w", "rnn.w", "rnn.flat"}, "its input 3 is f32[12], not of rank 2");
}

TEST_F(HandMade, FoldedRecurrentWeightsAreRefused) {
  model_.mutable_graph()->clear_output();
  add_type(*model_.mutable_graph()->add_output(), "y", {-1, 3});
  add_integers("first", {0});
  add_floats("onnx::LSTM_103", {1, 12, 4}, 0.1F);
  add_floats("onnx::LSTM_104", {1, 12, 3}, 0.1F);
  add("Unsqueeze", {"x", "first"}, {"steps"});
  add("LSTM", {"steps", "onnx::LSTM_103", "onnx::LSTM_104"}, {"", "last"});
  add("Squeeze", {"last", "first"}, {"y"});
  EXPECT_THAT(error(), AllOf(HasSubstr("\"onnx::LSTM_103\" has lost the name"),
                             HasSubstr("do_constant_folding=False")));
}

TEST_F(HandMade, WeightsThatAreAbsentAreDrawn) {
  add_type(*model_.mutable_graph()->add_input(), "fc.weight", {4, 4});
  add_type(*model_.mutable_graph()->add_input(), "fc.bias", {4});
  onnx::AttributeProto& turned = *add("Gemm", {"x", "fc.weight", "fc.bias"}, {"y"}).add_attribute();
  turned.set_name("transB");
  turned.set_type(onnx::AttributeProto::INT);
  turned.set_i(1);
  const OnnxModel model = import();
  EXPECT_TRUE(model.state.empty());
  for (const ValueId id : model.graph.parameters()) {
    EXPECT_EQ(model.graph.value(id).initializer.kind, Initializer::Kind::kUniform);
    EXPECT_EQ(model.graph.value(id).initializer.bound, 0.5F);
  }
}

TEST_F(HandMade, SlopesAndEmbeddingsThatAreAbsentAreDrawn) {
  for (const char* name : {"one.weight", "each.weight"})
    add_type(*model_.mutable_graph()->add_input(), name, {4});
  add_type(*model_.mutable_graph()->add_input(), "tokens.weight", {4, 4});
  add_integers("id", {3});
  add_integers("first", {0});
  add("Gather", {"tokens.weight", "id"}, {"row"});
  add("Add", {"x", "row"}, {"sum"});
  add("PRelu", {"sum", "one.weight"}, {"once"});
  add("Unsqueeze", {"each.weight", "first"}, {"slopes"});
  add("PRelu", {"once", "slopes"}, {"y"});
  model_.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  const OnnxModel model = import();
  EXPECT_EQ(model.graph.parameters().size(), 3U);
  const StateDict state = initial_state(model.graph, 1);
  for (const char* name : {"one.weight", "each.weight"})
    EXPECT_THAT(state.at(name).as<float>(), testing::Each(0.25F));
  for (const ValueId id : model.graph.parameters()) {
    const Value& value = model.graph.value(id);
    EXPECT_EQ(value.initializer.kind == Initializer::Kind::kNormal, value.name == "tokens.weight");
  }
}

TEST_F(HandMade, RecurrentWeightsThatAreAbsentAreDrawn) {
  model_.mutable_graph()->clear_output();
  add_type(*model_.mutable_graph()->add_output(), "y", {-1, 16});
  add_type(*model_.mutable_graph()->add_input(), "weight_ih_l0", {16, 4});
  add_type(*model_.mutable_graph()->add_input(), "weight_hh_l0", {16, 16});
  add_integers("first", {0});
  add("Unsqueeze", {"x", "first"}, {"steps"});
  add("Unsqueeze", {"weight_ih_l0", "first"}, {"w"});
  add("Unsqueeze", {"weight_hh_l0", "first"}, {"r"});
  add("RNN", {"steps", "w", "r"}, {"", "last"});
  add("Squeeze", {"last", "first"}, {"y"});
  const OnnxModel model = import();
  EXPECT_EQ(model.graph.parameters().size(), 2U);
  for (const ValueId id : model.graph.parameters()) {
    EXPECT_EQ(model.graph.value(id).initializer.kind, Initializer::Kind::kUniform);
    EXPECT_EQ(model.graph.value(id).initializer.bound, 0.25F);
  }
}

}  // namespace
}  // namespace rookery
