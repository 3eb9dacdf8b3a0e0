#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "models/base/error.hpp"
#include "models/graph/op_definition.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/cost.hpp"
#include "models/graph/passes/differentiate.hpp"
#include "models/graph/passes/fuse.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/stage.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/graph/state/state_dict.hpp"
#include "tests/support/tied_model.hpp"

namespace rookery {
namespace {

// conv - relu - pool - dropout - bn - flatten - dense - softmax - loss, with a branch around relu.
Graph small_model() {
  GraphBuilder b;
  ValueId x = b.input("input", {3, 8, 8});
  x = b.conv2d("conv", x, 4);
  const ValueId branch = x;
  x = b.relu("relu", x);
  x = b.add("sum", x, branch);
  x = b.max_pool2d("pool", x, 2, 2);
  x = b.dropout("drop", x, 0.25F);
  x = b.batch_norm("bn", x);
  x = b.flatten("flat", x);
  x = b.linear("dense", x, 10);
  x = b.softmax("softmax", x);
  Graph graph = b.finish(x);
  add_loss(graph, "mse");
  return graph;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Graph, InfersShapesForAnyBatch) {
  const Graph graph = small_model();
  const auto types = graph.types(5);
  const auto shape = [&](const char* name) { return types[graph.at(name)].shape; };
  EXPECT_EQ(shape("conv_out"), (Shape{5, 4, 8, 8}));
  EXPECT_EQ(shape("pool_out"), (Shape{5, 4, 4, 4}));
  EXPECT_EQ(shape("flat_out"), (Shape{5, 64}));
  EXPECT_EQ(shape("softmax_out"), (Shape{5, 10}));
  EXPECT_EQ(shape(kLoss), Shape());
}

TEST(Graph, NamesAreUnique) {
  Graph graph;
  graph.add_input("x", {DType::kF32, {kBatch, 4}});
  EXPECT_THROW(graph.add_input("x", {DType::kF32, {kBatch}}), ConfigError);
  EXPECT_THROW(graph.add_input("", {DType::kF32, {kBatch}}), ConfigError);
}

TEST(Graph, ErrorsNameOpOperatorAndShapes) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {kBatch, 3, 8, 8}});
  const ValueId w = graph.add_parameter("w", {DType::kF32, {4, 2, 3, 3}});
  graph.add_op({.name = "conv", .type = "Conv", .inputs = {x, w}}, {"y"});
  EXPECT_EQ(
      error_of([&] { graph.types(2); }),
      "op 'conv' (Conv of f32[2, 3, 8, 8], f32[4, 2, 3, 3]): 3 input channels, 1 groups and a weight of "
      "[4, 2, 3, 3] do not fit");
  EXPECT_THROW(graph.add_op({.name = "odd", .type = "Frobnicate", .inputs = {x}}, {"z"}), ConfigError);
}

TEST(Graph, HostileAttributesAreErrors) {
  const auto conv_error = [](std::map<std::string, Attribute> attributes) {
    Graph graph;
    const ValueId x = graph.add_input("x", {DType::kF32, {kBatch, 3, 8, 8}});
    const ValueId w = graph.add_parameter("w", {DType::kF32, {4, 3, 3, 3}});
    graph.add_op({.name = "conv", .type = "Conv", .inputs = {x, w}, .attributes = std::move(attributes)},
                 {"y"});
    return error_of([&] { graph.types(2); });
  };
  using Ints = std::vector<std::int64_t>;
  EXPECT_EQ(conv_error({{"pads", Ints{1, 1, 1, 1}}}), "");
  EXPECT_NE(conv_error({{"strides", Ints{0, 1}}}), "");
  EXPECT_NE(conv_error({{"strides", Ints{1}}}), "");
  EXPECT_NE(conv_error({{"pads", Ints{-1, 0, 0, 0}}}), "");
  EXPECT_NE(conv_error({{"dilations", Ints{std::int64_t{1} << 62, 1}}}), "");
  EXPECT_NE(conv_error({{"dilations", Ints{9, 9}}}), "");
  EXPECT_NE(conv_error({{"group", std::int64_t{0}}}), "");
  EXPECT_NE(conv_error({{"group", 1.0F}}), "");
  EXPECT_NE(conv_error({{"kernel_shape", Ints{5, 5}}}), "");
  EXPECT_NE(conv_error({{"auto_pad", std::string("SOMEHOW")}}), "");
}

TEST(Differentiate, KeepsWeightGradientsApart) {
  const TrainingGraph training = differentiate(small_model(), {});
  const auto phase_of = [&](const std::string& name) {
    const auto& ops = training.graph.ops();
    const auto found = std::ranges::find(ops, name, &Op::name);
    EXPECT_NE(found, ops.end()) << name;
    return training.phases[found - ops.begin()];
  };
  EXPECT_EQ(phase_of("dense.GemmGradInput"), Phase::kBackwardInputs);
  EXPECT_EQ(phase_of("dense.GemmGradWeight"), Phase::kBackwardWeights);
  EXPECT_EQ(phase_of("conv.ConvGradWeight"), Phase::kBackwardWeights);
  EXPECT_FALSE(training.graph.has_op("conv.ConvGradInput")) << "nobody wants the gradient of the data";
  EXPECT_EQ(training.parameter_gradients.size(), training.graph.parameters().size());
}

// What made the weight waits for its gradient, and other stages may wait for what comes of it.
TEST(Differentiate, GradientsOfMadeWeightsAreNotKeptApart) {
  GraphBuilder b;
  const ValueId x = b.input("x", {4});
  const ValueId weight = b.mul("made", b.parameter("direction", {3, 4}), b.parameter("length", {3, 1}));
  const ValueId y = b.linear_by("dense", x, weight, b.parameter("bias", {3}));
  Graph model = b.finish(y);
  add_loss(model, "mse");
  const TrainingGraph training = differentiate(model, {.inputs = {x}});
  const auto& ops = training.graph.ops();
  const auto found = std::ranges::find(ops, "dense.GemmGradWeight", &Op::name);
  ASSERT_NE(found, ops.end());
  EXPECT_EQ(training.phases[found - ops.begin()], Phase::kBackwardInputs);
}

TEST(Differentiate, SumsBranchesFromTheLastUserToTheFirst) {
  const TrainingGraph training = differentiate(small_model(), {});
  const auto& ops = training.graph.ops();
  const auto sum = std::ranges::find(ops, "conv_out.gradient.Add", &Op::name);
  ASSERT_NE(sum, ops.end());
  // `sum` uses conv_out after `relu` does, so its share comes first.
  EXPECT_EQ(ops[training.graph.value(sum->inputs[0]).producer].type, "Identity");
  EXPECT_EQ(ops[training.graph.value(sum->inputs[1]).producer].type, "ReluGrad");
}

// The op before a Relu adds the two gradients of its output itself.
TEST(Differentiate, TheGradientOfAReluIsOfTheSumOfTwo) {
  GraphBuilder b;
  ValueId x = b.input("x", {4});
  for (const char* number : {"1", "2"}) {
    const std::string name(number);
    const ValueId inner = b.linear("dense_" + name, x, 4);
    x = b.relu("relu_" + name, b.add("add_" + name, inner, x));
  }
  Graph model = b.finish(b.add("add_3", b.linear("dense_3", x, 4), b.linear("dense_4", x, 4)));
  add_loss(model, "mse");
  for (const Graph& graph : {model, fuse(model)}) {
    const TrainingGraph training = differentiate(graph, {.inputs = {graph.at("x")}});
    const auto& ops = training.graph.ops();
    const auto inputs_of = [&](const char* name) { return std::ranges::find(ops, name, &Op::name)->inputs; };
    for (const char* name : {"relu_1.ReluGrad", "relu_2.ReluGrad"}) {
      EXPECT_EQ(inputs_of(name).size(), 3U) << name;
      EXPECT_NE(inputs_of(name)[0], inputs_of(name)[2]);
    }
    const auto is_sum = [](const Op& op) { return op.name.ends_with(".gradient.Add"); };
    EXPECT_EQ(std::ranges::count_if(ops, is_sum), 1) << "of x";
  }
}

TEST(Differentiate, AGradientNobodyCanGiveIsAnError) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {kBatch, 4}});
  const OpId relu = graph.add_op({.name = "relu", .type = "Relu", .inputs = {x}}, {"y"});
  graph.mark_output(graph.op(relu).outputs[0]);
  EXPECT_THROW(differentiate(graph, {.inputs = {x}}), ConfigError);
}

TEST(Cut, RoutesValuesLabelsAndGradients) {
  const Graph graph = small_model();
  // [conv] [relu sum pool drop] [bn …]: conv_out is used by relu and sum on stage 1.
  const std::vector<OpId> begins{0, 1, 5};
  const std::vector<Stage> stages = cut(graph, begins);
  ASSERT_EQ(stages.size(), 3U);
  EXPECT_TRUE(stages[0].is_root());
  EXPECT_FALSE(stages[1].is_root() || stages[1].is_leaf());
  EXPECT_TRUE(stages[2].is_leaf());
  const std::vector<StageInput> root_inputs{{.value = "input"}, {.value = kLabels}, {.value = kSampleIds}};
  EXPECT_EQ(stages[0].inputs, root_inputs);
  const std::vector<StageOutput> root_outputs{{.value = "conv_out", .to = {1}, .gradient_from = 1},
                                              {.value = kLabels, .to = {2}},
                                              {.value = kSampleIds, .to = {2}}};
  EXPECT_EQ(stages[0].outputs, root_outputs);
  EXPECT_EQ(stages[1].inputs, (std::vector<StageInput>{{.value = "conv_out", .from = 0, .gradient_to = 0}}));
  EXPECT_EQ(stages[2].inputs, (std::vector<StageInput>{{.value = "drop_out", .from = 1, .gradient_to = 1},
                                                       {.value = kLabels, .from = 0},
                                                       {.value = kSampleIds, .from = 0}}));
  EXPECT_EQ(stages[2].outputs,
            (std::vector<StageOutput>{{.value = "softmax_out"}, {.value = kLoss}, {.value = "loss.hits"}}));
}

TEST(Cut, SkippingEdgesPassTheirGradientFromUserToUser) {
  const Graph graph = small_model();
  const std::vector<OpId> begins{0, 1, 2};  // conv | relu | sum …
  const std::vector<Stage> stages = cut(graph, begins);
  EXPECT_EQ(stages[0].outputs[0], (StageOutput{.value = "conv_out", .to = {1, 2}, .gradient_from = 1}));
  EXPECT_EQ(stages[1].inputs[0],
            (StageInput{.value = "conv_out", .from = 0, .gradient_to = 0, .gradient_from = 2}));
  EXPECT_EQ(stages[2].inputs[0], (StageInput{.value = "relu_out", .from = 1, .gradient_to = 1}));
  EXPECT_EQ(stages[2].inputs[1], (StageInput{.value = "conv_out", .from = 0, .gradient_to = 1}));
}

TEST(Differentiate, EveryUserOfAParameterHasAGradientOfItsOwn) {
  const Graph graph = tied_model({8}, 5);
  const TrainingGraph training = differentiate(graph, {.received = {graph.outputs()[0]}});
  const auto makers = [&](const std::string& parameter) {
    std::vector<std::string> names;
    for (const ValueId gradient : training.parameter_gradients.at(training.graph.at(parameter)))
      names.push_back(training.graph.op(training.graph.value(gradient).producer).name);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(makers("code.weight"), (Names{"code.GemmGradWeight"}));
  EXPECT_EQ(makers("core.weight"),
            (Names{"core_3.GemmGradWeight", "core_2.GemmGradWeight", "core_1.GemmGradWeight"}));
  const Names of_gain = makers("gain");
  ASSERT_EQ(of_gain.size(), 3U) << "one for each op";
  EXPECT_EQ(of_gain[1], "gain.gradient.Add") << "gain_squared uses it twice";
}

TEST(Cut, SharedParametersGoFromUserToUser) {
  Graph graph = tied_model({8}, 5);
  add_loss(graph, "mse");
  const auto begin = [&](const std::string& name) {
    const auto found = std::ranges::find(graph.ops(), name, &Op::name);
    return static_cast<OpId>(found - graph.ops().begin());
  };
  const std::vector<Stage> stages =
      cut(graph, std::vector<OpId>{0, begin("gain_1"), begin("gelu"), begin("encode_again")});
  using Shared = std::vector<SharedParameter>;
  EXPECT_EQ(stages[0].shared, (Shared{{.parameter = "key", .to = 1, .gradient_from = 1}}));
  EXPECT_EQ(stages[1].shared,
            (Shared{{.parameter = "key", .from = 0, .to = 3, .gradient_to = 0, .gradient_from = 3},
                    {.parameter = "core.weight", .to = 3, .gradient_from = 3},
                    {.parameter = "core.bias", .to = 3, .gradient_from = 3},
                    {.parameter = "gain", .to = 3, .gradient_from = 3}}));
  EXPECT_EQ(stages[2].shared, Shared{});
  EXPECT_EQ(stages[3].shared, (Shared{{.parameter = "key", .from = 1, .gradient_to = 1},
                                      {.parameter = "core.weight", .from = 1, .gradient_to = 1},
                                      {.parameter = "core.bias", .from = 1, .gradient_to = 1},
                                      {.parameter = "gain", .from = 1, .gradient_to = 1}}));
  EXPECT_EQ(stages[3].owned_parameters().size(), 2U);
  EXPECT_EQ(stages[3].borrowed_parameters().size(), 4U);
}

// What no loss depends on has no gradient to pass.
TEST(Cut, AUserWithoutGradientGetsTheNewValueOnly) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {kBatch, 4}});
  const ValueId w = graph.add_parameter("w", {DType::kF32, {4}});
  const auto add = [&](const std::string& name, const std::string& type, std::vector<ValueId> inputs) {
    return graph.op(graph.add_op({.name = name, .type = type, .inputs = std::move(inputs)}, {name + "_out"}))
        .outputs[0];
  };
  const ValueId first = add("first", "Mul", {x, w});
  const ValueId aside = add("aside", "Mul", {first, w});
  graph.mark_output(add("last", "Mul", {first, w}));
  add_loss(graph, "mse");
  graph.mark_output(aside);
  const std::vector<Stage> stages = cut(graph, std::vector<OpId>{0, 1, 2});
  const SharedParameter expected{.parameter = "w", .from = 0, .to = 2};
  ASSERT_EQ(stages[1].shared.size(), 1U);
  EXPECT_EQ(stages[1].shared[0], expected);
  EXPECT_EQ(stages[0].shared[0].gradient_from, 2);
}

TEST(Cut, EveryOpAndParameterLiesOnOneStage) {
  const Graph graph = small_model();
  std::vector<OpId> begins{0};
  for (const OpId position : cut_positions(graph)) begins.push_back(position);
  const std::vector<Stage> stages = cut(graph, begins);
  std::vector<std::string> ops;
  std::vector<std::string> parameters;
  for (const Stage& stage : stages) {
    for (const Op& op : stage.graph.ops()) ops.push_back(op.name);
    for (const ValueId id : stage.graph.parameters()) parameters.push_back(stage.graph.value(id).name);
  }
  std::vector<std::string> expected;
  for (const Op& op : graph.ops()) expected.push_back(op.name);
  EXPECT_EQ(ops, expected);
  EXPECT_EQ(parameters.size(), graph.parameters().size());
  EXPECT_EQ(stages.back().graph.ops().size(), 2U) << "the loss stays with the softmax it measures";
}

TEST(Cut, EveryStageHasTheConstantsItReads) {
  GraphBuilder b;
  const ValueId mask = b.constant("mask", {4}, std::vector<float>{1, 0, 1, 0});
  ValueId x = b.mul("first", b.linear("dense_1", b.input("x", {4}), 4), mask);
  x = b.mul("second", b.linear("dense_2", x, 4), mask);
  Graph graph = b.finish(b.linear("dense_3", x, 3));
  add_loss(graph, "mse");
  const std::vector<OpId> positions = cut_positions(graph);
  EXPECT_EQ(positions, (std::vector<OpId>{1, 2, 3, 4})) << "a constant keeps no ops together";
  const std::vector<Stage> stages = cut(graph, std::vector<OpId>{0, 2, 4});
  for (const int index : {0, 1}) {
    const Stage& stage = stages[index];
    const Value& value = stage.graph.value(stage.graph.at("mask"));
    EXPECT_EQ(value.kind, ValueKind::kConstant);
    EXPECT_EQ(value.data, graph.value(graph.at("mask")).data) << "shared, not copied";
    EXPECT_EQ(stage.graph.constants().size(), 1U);
  }
  EXPECT_FALSE(stages[2].graph.find("mask"));
  EXPECT_EQ(stages[1].inputs.front().value, "first_out");
}

TEST(Cut, IllegalPositionsAreErrors) {
  const Graph graph = small_model();
  const auto error_at = [&](std::vector<OpId> begins) { return error_of([&] { cut(graph, begins); }); };
  EXPECT_NE(error_at({1}), "");
  EXPECT_NE(error_at({0, 0}), "");
  EXPECT_NE(error_at({0, 3, 2}), "");
  EXPECT_NE(error_at({0, static_cast<OpId>(graph.ops().size()) - 1}), "") << "loss without its softmax";
  EXPECT_NE(error_at({0, 99}), "");
}

TEST(Cut, AnIllegalPositionSaysWhatKeepsTheOpsTogether) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {kBatch, 4}});
  const ValueId scale = graph.add_parameter("scale", {DType::kF32, {4}});
  const ValueId mean = graph.add_buffer("mean", {DType::kF32, {4}});
  const ValueId variance = graph.add_buffer("variance", {DType::kF32, {4}});
  ValueId y = x;
  for (const std::string name : {"first", "second"}) {
    const OpId op = graph.add_op(
        {.name = name, .type = "BatchNormalization", .inputs = {y, scale, scale, mean, variance}},
        {name + "_out"});
    y = graph.op(op).outputs[0];
  }
  graph.mark_output(y);
  const std::string error = error_of([&] { cut(graph, std::vector<OpId>{0, 1}); });
  EXPECT_NE(error.find("stage 1 cannot begin at op 1 ('second')"), std::string::npos) << error;
  EXPECT_NE(error.find("'first' and 'second' need one stage: both use the buffer"), std::string::npos)
      << error;
}

TEST(Cost, CountsFlopsAndParameters) {
  const Graph graph = small_model();
  const std::vector<OpCost> costs = op_costs(graph, 2);
  // conv: 2 samples, 4 x 8 x 8 outputs of 3 x 3 x 3 products, each two operations.
  EXPECT_EQ(costs[0].forward_flops, 2.0 * 2 * 4 * 64 * 27);
  EXPECT_EQ(costs[0].backward_flops, 2.0 * 2 * 4 * 64 * 27) << "the data's gradient is not computed";
  EXPECT_EQ(costs[0].parameters, 4 * 27 + 4);
}

TEST(Initialize, DependsOnSeedAndNameAlone) {
  const Graph graph = small_model();
  const StateDict one = initial_state(graph, 1);
  const StateDict again = initial_state(graph, 1);
  const StateDict other = initial_state(graph, 2);
  const auto bytes = [](const StateDict& state, const char* name) {
    const auto view = state.at(name).view().bytes();
    return std::vector<std::byte>(view.begin(), view.end());
  };
  EXPECT_EQ(bytes(one, "conv.weight"), bytes(again, "conv.weight"));
  EXPECT_NE(bytes(one, "conv.weight"), bytes(other, "conv.weight"));
  const float bound = 1.0F / std::sqrt(27.0F);
  for (const float element : one.at("conv.weight").as<float>()) EXPECT_LE(std::abs(element), bound);
  EXPECT_EQ(one.at("bn.running_var").as<float>()[0], 1.0F);
  EXPECT_EQ(one.at("bn.num_batches_tracked").as<std::int64_t>()[0], 0);
  EXPECT_NO_THROW(check_state(graph, one));
}

TEST(Initialize, NormalNumbersHaveTheirDeviation) {
  Graph graph;
  graph.add_parameter("w", {DType::kF32, {9999}}, {.kind = Initializer::Kind::kNormal, .bound = 0.5F});
  const StateDict state = initial_state(graph, 3);
  double sum = 0, squares = 0, within = 0;
  for (const float x : state.at("w").as<float>()) {
    sum += x;
    squares += x * x;
    within += std::abs(x) < 0.5F ? 1 : 0;
  }
  EXPECT_NEAR(sum / 9999, 0, 0.02);
  EXPECT_NEAR(std::sqrt(squares / 9999), 0.5, 0.02);
  EXPECT_NEAR(within / 9999, 0.6827, 0.02);
}

TEST(Initialize, CheckListsEveryProblem) {
  const Graph graph = small_model();
  StateDict state = initial_state(graph, 1);
  state.erase("conv.bias");
  state.insert_or_assign("dense.bias", Tensor(DType::kF32, {11}));
  state.emplace("stranger", Tensor(DType::kF32, {1}));
  const std::string error = error_of([&] { check_state(graph, state); });
  EXPECT_NE(error.find("'conv.bias' is missing"), std::string::npos);
  EXPECT_NE(error.find("'dense.bias' is f32[11], the model has f32[10]"), std::string::npos);
  EXPECT_NE(error.find("'stranger' is not in the model"), std::string::npos);
}

TEST(Initialize, SecondNamesAreThoseOfEqualTensors) {
  const Graph graph = small_model();
  StateDict state = initial_state(graph, 1);
  state.emplace("tied.weight", state.at("dense.weight").clone());
  state.emplace("other.weight", state.at("dense.weight").clone());
  state.at("other.weight").as<float>()[0] += 1;
  state.emplace("fresh.bias", state.at("bn.bias").clone());
  EXPECT_EQ(second_names(graph, state),
            (std::map<std::string, std::string>{{"tied.weight", "dense.weight"}}));
}

TEST(Initialize, CheckGuessesWhatWasMeant) {
  const Graph graph = small_model();
  StateDict misspelt = initial_state(graph, 1);
  misspelt.emplace("conv.wieght", std::move(misspelt.at("conv.weight")));
  misspelt.erase("conv.weight");
  EXPECT_NE(error_of([&] {
              check_state(graph, misspelt);
            }).find("'conv.weight' is missing (is it what 'conv.wieght' is?)"),
            std::string::npos);
  StateDict wrapped;
  for (auto& [name, tensor] : initial_state(graph, 1)) wrapped.emplace("module." + name, std::move(tensor));
  EXPECT_NE(error_of([&] { check_state(graph, wrapped); }).find("with 'module.' before each"),
            std::string::npos);
  wrapped.erase("module.conv.weight");
  EXPECT_EQ(error_of([&] { check_state(graph, wrapped); }).find("before each"), std::string::npos);
}

}  // namespace
}  // namespace rookery
