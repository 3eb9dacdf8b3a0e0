// What the comparison with PyTorch does not show of recurrent layers: slopes against central differences, and
// that the number of threads changes no bit, and what rounding to bf16 does.
#include <gtest/gtest.h>

#include "models/graph/ops/recurrent.hpp"
#include "models/graph/passes/differentiate.hpp"
#include "models/kernels/threads.hpp"
#include "tests/models/kernels/run_graph.hpp"

namespace rookery::kernel_tests {
namespace {

using Attributes = std::map<std::string, Attribute>;

// A layer whose inputs are all parameters, and whose outputs are all received.
struct Layer {
  Graph graph;
  std::map<ValueId, Tensor> given;
  GradientRequest request;

  Layer(const std::string& type, const Attributes& attributes, std::int64_t hidden, float largest,
        Random& random) {
    const std::int64_t rows = hidden * (type == "LSTM" ? 4 : type == "GRU" ? 3 : 1);
    const std::vector<Shape> shapes{{4, 3, 5}, {rows, 5},   {rows, hidden}, {rows},
                                    {rows},    {3, hidden}, {3, hidden}};
    Op op{.name = "layer", .type = type, .inputs = {}, .outputs = {}, .attributes = attributes};
    for (std::size_t i = 0; i < (type == "LSTM" ? 7U : 6U); ++i) {
      op.inputs.push_back(graph.add_parameter("input." + std::to_string(i), {DType::kF32, shapes[i]}));
      given.emplace(op.inputs[i], random_tensor(shapes[i], random, -largest, largest));
    }
    std::vector<std::string> outputs{"y", "last_h"};
    if (type == "LSTM") outputs.emplace_back("last_c");
    const OpId id = graph.add_op(std::move(op), outputs);
    for (const ValueId output : graph.op(id).outputs) {
      graph.mark_output(output);
      request.received.insert(output);
    }
  }

  double weighted_sum(const std::map<ValueId, Tensor>& weights) const {
    const auto values = run_graph(graph, given, "eigen", {});
    double sum = 0;
    for (const auto& [output, weight] : weights) {
      const auto y = values[output].as<float>();
      for (std::size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(y[i]) * weight.as<float>()[i];
    }
    return sum;
  }
};

void check_slopes(const std::string& type, const Attributes& attributes) {
  Random random(19);
  Layer layer(type, attributes, 6, 0.6F, random);
  const TrainingGraph training = differentiate(layer.graph, layer.request);
  std::map<ValueId, Tensor> weights;
  std::map<ValueId, Tensor> given;
  for (const auto& [id, tensor] : layer.given) given.emplace(id, tensor.clone());
  for (const ValueId output : layer.graph.outputs()) {
    weights.emplace(output, random_tensor(layer.graph.types(1)[output].shape, random));
    given.emplace(training.received_gradients.at(output), weights.at(output).clone());
  }
  const auto values = run_graph(training.graph, given, "eigen", {});
  for (const ValueId input : layer.graph.parameters()) {
    const auto gradient = values[training.parameter_gradients.at(input).at(0)].as<float>();
    const auto x = layer.given.at(input).as<float>();
    for (std::size_t place = 0; place < x.size(); place += 1 + x.size() / 9) {
      constexpr float kStep = 0.01F;
      const float before = x[place];
      x[place] = before + kStep;
      const double above = layer.weighted_sum(weights);
      x[place] = before - kStep;
      const double below = layer.weighted_sum(weights);
      x[place] = before;
      EXPECT_NEAR(gradient[place], (above - below) / (2 * static_cast<double>(kStep)), 3e-3)
          << type << ", " << layer.graph.value(input).name << " at " << place;
    }
  }
}

TEST(Recurrent, GradientsAreSlopes) {
  for (const char* direction : {"forward", "reverse"}) {
    const std::pair<const std::string, Attribute> way{"direction", std::string(direction)};
    check_slopes("LSTM", {way});
    check_slopes("LSTM", {way, {"gates", std::string("ifco")}});
    check_slopes("GRU", {way});
    check_slopes("GRU", {way, {"gates", std::string("rzh")}, {"linear_before_reset", std::int64_t{1}}});
    check_slopes("RNN", {way});
  }
}

// All that a step of a layer of 80 units and its gradient make, in the order of their ops.
std::vector<Tensor> training_values(const std::string& type, const Attributes& attributes,
                                    const std::string& kernels, int threads = 1) {
  Random random(20);
  Layer layer(type, attributes, 80, 0.2F, random);
  const TrainingGraph training = differentiate(layer.graph, layer.request);
  for (const ValueId output : layer.graph.outputs()) {
    const Shape shape = layer.graph.types(1)[output].shape;
    layer.given.emplace(training.received_gradients.at(output), random_tensor(shape, random));
  }
  set_kernel_threads(threads);
  auto values = run_graph(training.graph, layer.given, kernels, {});
  set_kernel_threads(1);
  std::vector<Tensor> made;
  if (values.empty()) return made;
  for (const Op& op : training.graph.ops()) {
    for (const ValueId output : op.outputs) {
      if (output != kNoValue) made.push_back(values[output].clone());
    }
  }
  return made;
}

const Attributes kAfterReset{{"linear_before_reset", std::int64_t{1}}};  // the other GRU has no loops

TEST(Recurrent, ThreadsChangeNoBit) {
  if (std::ranges::count(backends(), "onednn") == 0) GTEST_SKIP() << "built without oneDNN";
  for (const char* kernels : {"onednn", "onednn/bf16"}) {
    for (const char* type : {"LSTM", "GRU", "RNN"}) {
      const std::vector<Tensor> expected = training_values(type, kAfterReset, kernels);
      if (expected.empty()) continue;  // a processor without bf16
      EXPECT_GT(expected.size(), 5U);
      for (const int threads : {2, 3, 4}) {
        const std::vector<Tensor> actual = training_values(type, kAfterReset, kernels, threads);
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_TRUE(same_bits(expected[i], actual[i])) << type << ", value " << i << " on " << threads;
      }
    }
  }
}

// Every value differs from that of f32 by what rounding does, and no more.
TEST(Recurrent, RoundsToBf16) {
  if (training_values("LSTM", {}, "onednn/bf16").empty()) GTEST_SKIP() << "this processor has none";
  for (const char* type : {"LSTM", "GRU", "RNN"}) {
    for (const char* direction : {"forward", "reverse"}) {
      Attributes attributes = kAfterReset;
      attributes["direction"] = std::string(direction);
      const std::vector<Tensor> exact = training_values(type, attributes, "eigen");
      const std::vector<Tensor> rounded = training_values(type, attributes, "onednn/bf16");
      ASSERT_EQ(exact.size(), rounded.size());
      for (std::size_t i = 0; i < exact.size(); ++i) {
        EXPECT_LE(difference(exact[i], rounded[i]), 1e-2) << type << ", " << direction << ", value " << i;
        EXPECT_GT(difference(exact[i], rounded[i]), 1e-5) << type << ", " << direction << ", value " << i;
      }
    }
  }
}

}  // namespace
}  // namespace rookery::kernel_tests
