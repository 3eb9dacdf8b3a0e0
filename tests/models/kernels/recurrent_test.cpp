// What the comparison with PyTorch does not show of recurrent layers: slopes against central differences, and
// that the number of threads changes no bit.
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

  Layer(const std::string& type, const Attributes& attributes, std::int64_t hidden, Random& random) {
    const std::int64_t rows = hidden * (type == "LSTM" ? 4 : type == "GRU" ? 3 : 1);
    const std::vector<Shape> shapes{{4, 3, 5}, {rows, 5},   {rows, hidden}, {rows},
                                    {rows},    {3, hidden}, {3, hidden}};
    Op op{.name = "layer", .type = type, .inputs = {}, .outputs = {}, .attributes = attributes};
    for (std::size_t i = 0; i < (type == "LSTM" ? 7U : 6U); ++i) {
      op.inputs.push_back(graph.add_parameter("input." + std::to_string(i), {DType::kF32, shapes[i]}));
      given.emplace(op.inputs[i], random_tensor(shapes[i], random, -0.6F, 0.6F));
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
  Layer layer(type, attributes, 6, random);
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

// Products over all steps are oneDNN's, which may add in another order on other threads; of zeros they are
// exact, and what is left is ours.
TEST(Recurrent, ThreadsChangeNoBit) {
  const auto run = [](const std::string& type, int threads) {
    Random random(20);
    Layer layer(type, {{"linear_before_reset", std::int64_t{1}}}, 80, random);
    std::ranges::fill(layer.given.at(layer.graph.parameters()[kRecurrentX]).as<float>(), 0.0F);
    const TrainingGraph training = differentiate(layer.graph, layer.request);
    for (const ValueId output : layer.graph.outputs()) {
      const Shape shape = layer.graph.types(1)[output].shape;
      layer.given.emplace(training.received_gradients.at(output), random_tensor(shape, random));
    }
    set_kernel_threads(threads);
    auto values = run_graph(training.graph, layer.given, "onednn", {});
    set_kernel_threads(1);
    std::vector<Tensor> kept;
    for (const Op& op : training.graph.ops()) {
      if (op.type != type && op.type != type + "GradGates") continue;
      for (const ValueId output : op.outputs) kept.push_back(values[output].clone());
    }
    return kept;
  };
  if (std::ranges::count(backends(), "onednn") == 0) GTEST_SKIP() << "built without oneDNN";
  for (const char* type : {"LSTM", "GRU", "RNN"}) {
    const std::vector<Tensor> expected = run(type, 1);
    EXPECT_GT(expected.size(), 3U);
    for (const int threads : {2, 3, 4}) {
      const std::vector<Tensor> actual = run(type, threads);
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(same_bits(expected[i], actual[i])) << type << ", value " << i << " on " << threads;
    }
  }
}

}  // namespace
}  // namespace rookery::kernel_tests
