// Functions of one and of two numbers: types, hostile attributes, and their gradients in a graph.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "models/base/error.hpp"
#include "models/graph/op_definition.hpp"
#include "models/graph/ops/broadcast.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/differentiate.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/passes/memory/memory_plan.hpp"
#include "tests/models/graph/ops/infer.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Broadcast, AlignsAtTheLastDimension) {
  EXPECT_EQ(broadcast({2, 3}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast({2, 3}, {3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast({3, 1}, {2, 1, 4}), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast({}, {5}), (Shape{5}));
  EXPECT_EQ(broadcast({}, {}), Shape());
  EXPECT_EQ(broadcast({0, 3}, {1, 3}), (Shape{0, 3})) << "nothing repeated is nothing";
  EXPECT_THROW(broadcast({2, 3}, {2}), ConfigError);
  EXPECT_THROW(broadcast({2, 3}, {0, 3}), ConfigError);
}

TEST(Unary, HostileAttributesAreErrors) {
  const std::vector<TensorType> x{{DType::kF32, {kBatch, 3}}};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<std::pair<std::string, std::string>> numbers{
      {"Clip", "min"},   {"Clip", "max"},          {"Elu", "alpha"},        {"Selu", "alpha"},
      {"Selu", "gamma"}, {"HardSigmoid", "alpha"}, {"HardSigmoid", "beta"}, {"LeakyRelu", "alpha"}};
  for (const auto& [type, key] : numbers) {
    EXPECT_NO_THROW(infer(type, {{key, 0.5F}}, x));
    EXPECT_THROW(infer(type, {{key, nan}}, x), ConfigError) << type;
    EXPECT_THROW(infer(type, {{key, std::int64_t{1}}}, x), ConfigError) << type;
    EXPECT_THROW(infer(type, {{key, std::string("1")}}, x), ConfigError) << type;
    if (type != "Clip") {
      EXPECT_THROW(infer(type, {{key, infinity}}, x), ConfigError) << type;
    }
  }
  EXPECT_NO_THROW(infer("Clip", {{"max", infinity}}, x));
  EXPECT_NO_THROW(infer("Gelu", {{"approximate", std::string("tanh")}}, x));
  EXPECT_THAT(
      [&] {
        infer("Gelu", {{"approximate", std::string("sort of")}}, x);
      },
      ThrowsMessage<ConfigError>(HasSubstr("'sort of'")));
  EXPECT_THROW(infer("Gelu", {{"approximate", 1.0F}}, x), ConfigError);
}

TEST(Unary, TakesOneInputOfFloats) {
  for (const char* type : {"Abs", "Clip", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish",
                           "LeakyRelu", "Log", "Neg", "Selu", "Sigmoid", "Softplus", "Sqrt", "Tanh"}) {
    const TensorType floats{DType::kF32, {kBatch, 3}};
    EXPECT_NO_THROW(infer(type, {}, {floats})) << type;
    EXPECT_THROW(infer(type, {}, {}), ConfigError) << type;
    EXPECT_THROW(infer(type, {}, {floats, floats}), ConfigError) << type;
    EXPECT_THROW(infer(type, {}, {{DType::kI64, {kBatch, 3}}}), ConfigError) << type;
  }
}

TEST(Binary, TakesTwoInputsOfFloatsThatFit) {
  const TensorType x{DType::kF32, {kBatch, 3}};
  for (const char* type : {"Add", "Div", "Mul", "PRelu", "Pow", "Sub"}) {
    EXPECT_NO_THROW(infer(type, {}, {x, {DType::kF32, {3}}})) << type;
    EXPECT_THROW(infer(type, {}, {x}), ConfigError) << type;
    EXPECT_THROW(infer(type, {}, {x, x, x}), ConfigError) << type;
    EXPECT_THROW(infer(type, {}, {x, {DType::kF32, {4}}}), ConfigError) << type;
    EXPECT_THROW(infer(type, {}, {x, {DType::kI64, {3}}}), ConfigError) << type;
  }
  EXPECT_THROW(infer("PRelu", {}, {{DType::kF32, {3}}, {DType::kF32, {2, 3}}}), ConfigError);
}

struct Made {
  std::string type;
  Phase phase;
};

// What makes the gradient of the parameter.
Made maker_of(const TrainingGraph& training, const std::string& parameter) {
  const ValueId gradient = training.parameter_gradients.at(training.graph.at(parameter)).at(0);
  const OpId op = training.graph.value(gradient).producer;
  return {training.graph.op(op).type, training.phases[op]};
}

TEST(Binary, GradientsOfParametersAreOfTheirOwnAndCanWait) {
  GraphBuilder b;
  ValueId x = b.linear("dense", b.input("x", {4}), 4);
  x = b.add("bias", x, b.parameter("bias.weight", {4}));
  x = b.scale("scale", x, {1});
  x = b.mul("gain", x, b.apply("exp", "Exp", {b.parameter("log_gain", {4})}));
  Graph graph = b.finish(x);
  add_loss(graph, "mse");
  const TrainingGraph training = differentiate(graph, {});
  EXPECT_EQ(training.parameter_gradients.size(), graph.parameters().size());
  for (const auto& [parameter, type] : std::vector<std::pair<std::string, std::string>>{
           {"bias.weight", "AddGradRight"}, {"scale.weight", "MulGradRight"}, {"log_gain", "ExpGrad"}}) {
    const Made made = maker_of(training, parameter);
    EXPECT_EQ(made.type, type) << parameter;
    EXPECT_EQ(made.phase, Phase::kBackwardWeights) << parameter;
  }
  const auto& ops = training.graph.ops();
  const auto phase_of = [&](const std::string& name) {
    const auto found = std::ranges::find(ops, name, &Op::name);
    EXPECT_NE(found, ops.end()) << name;
    return training.phases[found - ops.begin()];
  };
  EXPECT_EQ(phase_of("bias.Identity"), Phase::kBackwardInputs) << "of the activation, without a copy";
  EXPECT_EQ(phase_of("scale.MulGradLeft"), Phase::kBackwardInputs);
  EXPECT_EQ(phase_of("gain.MulGradRight"), Phase::kBackwardInputs) << "of the Exp, which goes on";
}

// A parameter of the result's own shape, added: its gradient is dY itself, but not its memory.
TEST(Binary, AParameterOfTheFullShapeHasAGradientOfItsOwn) {
  Graph graph;
  const ValueId a = graph.add_parameter("a", {DType::kF32, {3, 4}});
  const ValueId c = graph.add_parameter("c", {DType::kF32, {3, 4}});
  const OpId sum = graph.add_op({.name = "sum", .type = "Add", .inputs = {a, c}}, {"y"});
  const ValueId y = graph.op(sum).outputs[0];
  graph.mark_output(y);
  const TrainingGraph training = differentiate(graph, {.received = {y}});
  EXPECT_EQ(maker_of(training, "a").type, "AddGradLeft");
  EXPECT_EQ(maker_of(training, "c").type, "AddGradRight");
  const std::vector<std::size_t> scratch(training.graph.ops().size());
  EXPECT_NO_THROW(plan_memory(training, training.graph.types(2), scratch, {.accumulates = true}));
}

TEST(Unary, KeepsWhatItsDerivativeNeeds) {
  GraphBuilder b;
  ValueId x = b.linear("dense", b.input("x", {4}), 4);
  x = b.tanh("tanh", b.gelu("gelu", x));
  Graph graph = b.finish(x);
  add_loss(graph, "mse");
  const TrainingGraph training = differentiate(graph, {});
  const auto second_input = [&](const std::string& name) {
    const auto found = std::ranges::find(training.graph.ops(), name, &Op::name);
    return found == training.graph.ops().end() ? "" : training.graph.value(found->inputs.at(1)).name;
  };
  EXPECT_EQ(second_input("tanh.TanhGrad"), "tanh_out");
  EXPECT_EQ(second_input("gelu.GeluGrad"), "dense_out");
}

}  // namespace
}  // namespace rookery
