// Recurrent layers in graphs: types, hostile attributes and inputs, what gradients need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/base/error.hpp"
#include "models/graph/op_definition.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/ops/recurrent.hpp"
#include "models/graph/passes/differentiate.hpp"
#include "models/graph/passes/recognize/recognize.hpp"
#include "tests/models/graph/ops/infer.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<TensorType> infer_given(const std::string& type, const Attributes& attributes,
                                    const std::vector<std::optional<Shape>>& inputs) {
  Op op{.name = "op", .type = type, .inputs = {}, .outputs = {}, .attributes = attributes};
  std::vector<TensorType> types;
  for (const std::optional<Shape>& shape : inputs) {
    op.inputs.push_back(shape ? static_cast<ValueId>(types.size()) : kNoValue);
    types.push_back(shape ? f32(*shape) : TensorType{});
  }
  return op_definition(type).infer(op, types);
}

void expect_given_refused(const std::string& type, const Attributes& attributes,
                          const std::vector<std::optional<Shape>>& inputs, const std::string& because) {
  EXPECT_THAT([&] { infer_given(type, attributes, inputs); }, ThrowsMessage<ConfigError>(HasSubstr(because)));
}

TEST(RecurrentOps, TypesAreThoseOfOneDirection) {
  const auto lstm = infer_given("LSTM", {}, {{{7, 2, 3}}, {{20, 3}}, {{20, 5}}});
  ASSERT_EQ(lstm.size(), 5U);
  EXPECT_EQ(lstm[0], f32({7, 2, 5}));
  EXPECT_EQ(lstm[2], f32({2, 5}));
  EXPECT_EQ(lstm[3], f32({7, 2, 20}));
  const auto gru = infer_given("GRU", {}, {{{7, 2, 3}}, {{15, 3}}, {{15, 5}}, {{15}}, {{15}}, {{2, 5}}});
  EXPECT_EQ(gru[2], f32({7, 2, 15}));
  EXPECT_EQ(infer_given("RNN", {}, {{{7, 2, 3}}, {{5, 3}}, {{5, 5}}}).size(), 2U);
}

TEST(RecurrentOps, WhatDoesNotFitIsRefused) {
  const std::optional<Shape> x{{7, 2, 3}}, w{{20, 3}}, r{{20, 5}}, bias{{20}}, state{{2, 5}}, none;
  expect_given_refused("LSTM", {}, {x, w}, "needs X[steps, batch, input]");
  expect_given_refused("LSTM", {}, {Shape{7, 3}, w, r}, "needs X[steps, batch, input]");
  expect_given_refused("LSTM", {}, {Shape{0, 2, 3}, w, r}, "no steps");
  expect_given_refused("LSTM", {}, {x, Shape{19, 3}, r}, "its input 1 is f32[19, 3], not f32[20, 3]");
  expect_given_refused("GRU", {}, {x, w, r}, "its input 1 is f32[20, 3], not f32[15, 3]");
  expect_given_refused("LSTM", {}, {x, w, r, bias}, "one bias");
  expect_given_refused("LSTM", {}, {x, w, r, bias, bias, state}, "one initial state");
  expect_given_refused("LSTM", {}, {x, w, r, bias, bias, Shape{1, 5}, state}, "its input 5 is");
  expect_given_refused("GRU", {}, {x, Shape{15, 3}, Shape{15, 5}, none, none, state, state}, "needs X[");
  expect_given_refused("LSTM", {{"gates", std::string("cofi")}}, {x, w, r},
                       "gates is 'cofi', not 'iofc' or 'ifco'");
  expect_given_refused("LSTM", {{"direction", std::string("both")}}, {x, w, r}, "direction is 'both'");
  expect_given_refused("LSTM", {{"hidden_size", std::int64_t{4}}}, {x, w, r},
                       "hidden_size is 4, but R has 5");
  expect_given_refused("RNN", {{"function", std::string("Sin")}}, {x, Shape{5, 3}, Shape{5, 5}},
                       "function is 'Sin'");
}

// A layer on data needs no gradient of it; the gates' are for the weights' alone.
TEST(RecurrentOps, OnlyWhatIsWantedIsComputed) {
  GraphBuilder b;
  const ValueId x = b.transpose("steps", b.input("x", {4, 3}), {1, 0, 2});
  const auto made = b.recurrent("rnn", "GRU", x, 5);
  const Graph graph = b.finish(made[1]);
  const TrainingGraph training = differentiate(graph, {.inputs = {}, .received = {made[1]}});
  const auto count = [&](const std::string& type) {
    return std::ranges::count(training.graph.ops(), type, &Op::type);
  };
  EXPECT_EQ(count("GRUGradGates"), 1);
  EXPECT_EQ(count("GRUGradWeights"), 1);
  EXPECT_EQ(count("MatMul"), 0) << "nobody wants the gradient of the data";
  for (const ValueId parameter : graph.parameters())
    EXPECT_EQ(training.parameter_gradients.at(parameter).size(), 1U) << graph.value(parameter).name;
}

// W of a GRU from PyTorch's weight [r; z; h]: ONNX's order is z, r, h.
class Reordered : public testing::Test {
 protected:
  Graph model(const Integers& order, bool is_read_elsewhere = false) {
    GraphBuilder b;
    const ValueId x = b.transpose("steps", b.input("x", {4, 3}), {1, 0, 2});
    const auto weight = [&](const char* name, std::int64_t columns) {
      const ValueId given = b.parameter(name, {15, columns});
      std::vector<ValueId> blocks;
      for (const std::int64_t block : order)
        blocks.push_back(b.slice(name + std::to_string(blocks.size()), given, 0, 5 * block, 5 * block + 5));
      return b.squeeze(
          name + std::string(".part"),
          b.unsqueeze(name + std::string(".all"), b.concat(name + std::string(".joined"), blocks, 0), {0}),
          {0});
    };
    const ValueId w = weight("w", 3);
    ValueId y = b.apply("gru", "GRU", {x, w, weight("r", 5)});
    if (is_read_elsewhere) y = b.add("sum", y, b.apply("mean", "ReduceMean", {w}));
    return b.finish(b.transpose("samples", y, {1, 0, 2}));
  }
  static const Op& gru(const Graph& graph) { return *std::ranges::find(graph.ops(), "GRU", &Op::type); }
};

TEST_F(Reordered, LayersReadParametersInPyTorchsOrder) {
  const Graph graph = recognize_recurrent(model({1, 0, 2}));
  EXPECT_EQ(graph.value(gru(graph).inputs[kRecurrentW]).name, "w");
  EXPECT_EQ(graph.value(gru(graph).inputs[kRecurrentR]).name, "r");
  EXPECT_EQ(gates_of(gru(graph)), "rzh");
  EXPECT_EQ(graph.ops().size(), 3U) << "nothing is left of the blocks";
}

TEST_F(Reordered, OtherOrdersStayAsTheyAre) {
  for (const Integers& order : {Integers{0, 1, 2}, Integers{2, 1, 0}, Integers{1, 0, 0}}) {
    const Graph graph = recognize_recurrent(model(order));
    EXPECT_EQ(graph.ops().size(), model(order).ops().size());
    EXPECT_EQ(gates_of(gru(graph)), "zrh");
  }
}

TEST_F(Reordered, WhatOthersReadStays) {
  const Graph graph = recognize_recurrent(model({1, 0, 2}, true));
  EXPECT_EQ(graph.value(gru(graph).inputs[kRecurrentW]).name, "w");
  EXPECT_TRUE(graph.find("w.part_out").has_value());
  EXPECT_FALSE(graph.find("r.part_out").has_value());
}

}  // namespace
}  // namespace rookery
