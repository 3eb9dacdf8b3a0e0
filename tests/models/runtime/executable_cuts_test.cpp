// A model trains to the same bits however it is cut into stages, with and without recomputation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "models/base/named_rows.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/kernels/precision.hpp"
#include "tests/models/runtime/random_batch.hpp"

namespace rookery {
namespace {

// Ends a step as StepExchange does, by hand.
void end_step(std::vector<Executable>& executables, int step, const CompileOptions& options,
              double clip_gradient_norm) {
  const auto for_each_shared = [&](Executable& executable, auto&& action) {
    const std::vector<SharedParameter>& shared = executable.stage().shared;
    for (std::size_t i = 0; i < shared.size(); ++i) action(shared[i], i);
  };
  const auto place_on = [&](int stage, const std::string& parameter) {
    const auto& shared = executables[stage].stage().shared;
    return static_cast<std::size_t>(std::ranges::find(shared, parameter, &SharedParameter::parameter) -
                                    shared.begin());
  };
  ExactSum squares;
  for (std::size_t k = executables.size(); k-- > 0;) {
    Executable& executable = executables[k];
    for_each_shared(executable, [&](const SharedParameter& shared, std::size_t i) {
      const ConstTensorView sum = executable.sum_gradient(i);
      if (shared.gradient_to == kNoStage) return;
      const auto to = static_cast<std::size_t>(shared.gradient_to);
      copy(sum, executables[to].partial_sum(place_on(shared.gradient_to, shared.parameter)));
    });
    squares.add(executable.squared_gradients());
  }
  const double factor = clip_gradient_norm / std::sqrt(squares.value());
  for (Executable& executable : executables) {
    if (factor < 1) executable.scale_gradients(static_cast<float>(factor));
    executable.update(step, options.optimizer.learning_rate);
    for_each_shared(executable, [&](const SharedParameter& shared, std::size_t i) {
      if (shared.to == kNoStage) return;
      copy(executable.shared_parameter(i),
           executables[shared.to].shared_parameter(place_on(shared.to, shared.parameter)));
    });
  }
}

// Trains `steps` steps of `micro_batches` each over the stages of one cut, passing tensors by hand,
// all forwards of a step before its backwards; where gradients of weights are delayed, these at the end.
StateDict train_cut(const Graph& graph, const std::vector<OpId>& begins, int steps, int micro_batches,
                    std::vector<float>* losses, const OptimizerSettings& optimizer = {},
                    bool recompute = false, double clip_gradient_norm = 0.5, bool bf16 = false,
                    bool delays_weights = false) {
  const std::int64_t size = 6;
  const std::vector<Stage> stages = cut(graph, begins);
  CompileOptions options = options_for(graph, size);
  options.slots = micro_batches;
  options.micro_batches = micro_batches;
  options.optimizer = optimizer;
  if (bf16) options.kernels = in_bf16(graph, std::move(options.kernels));
  options.recompute = recompute;
  options.delays_weights = delays_weights;
  const StateDict start = initial_state(graph, kSeed);
  std::vector<Executable> executables;
  for (const Stage& stage : stages) {
    StateDict part;
    for (const auto& ids : {stage.graph.parameters(), stage.graph.buffers()}) {
      for (const ValueId id : ids)
        part.emplace(stage.graph.value(id).name, start.at(stage.graph.value(id).name).clone());
    }
    executables.emplace_back(stage, options, part);
  }
  const auto input_index = [&](int stage, const std::string& value) {
    const auto& inputs = stages[stage].inputs;
    return static_cast<std::size_t>(std::ranges::find(inputs, value, &StageInput::value) - inputs.begin());
  };
  const auto forward = [&](const MicroBatch& mb) {
    fill(executables[0], mb, random_batch(graph, size, static_cast<std::uint64_t>(mb.step * 100 + mb.index)));
    for (std::size_t k = 0; k < stages.size(); ++k) {
      executables[k].forward(mb);
      for (std::size_t i = 0; i < stages[k].outputs.size(); ++i) {
        for (const int to : stages[k].outputs[i].to) {
          copy(executables[k].output(i, mb),
               executables[to].input(input_index(to, stages[k].outputs[i].value), mb));
        }
      }
    }
    losses->push_back(loss_of(executables.back(), mb));
  };
  const auto backward = [&](const MicroBatch& mb) {
    for (std::size_t k = stages.size(); k-- > 0;) {
      executables[k].backward_inputs(mb);
      for (std::size_t i = 0; i < stages[k].inputs.size(); ++i) {
        const StageInput& input = stages[k].inputs[i];
        if (input.gradient_to == kNoStage) continue;
        Executable& target = executables[input.gradient_to];
        const auto& outputs = target.stage().outputs;
        const auto output = std::ranges::find(outputs, input.value, &StageOutput::value);
        const TensorView into =
            output != outputs.end()
                ? target.output_gradient(static_cast<std::size_t>(output - outputs.begin()), mb)
                : target.partial_gradient(input_index(input.gradient_to, input.value), mb);
        copy(executables[k].input_gradient(i, mb), into);
      }
      if (!delays_weights) executables[k].backward_weights(mb);
    }
  };
  for (int step = 0; step < steps; ++step) {
    const auto micro_batch = [&](int index) {
      return MicroBatch{.step = step,
                        .index = index,
                        .size = size,
                        .slot = index,
                        .loss_weight = 1.0F / static_cast<float>(micro_batches)};
    };
    for (int index = 0; index < micro_batches; ++index) forward(micro_batch(index));
    for (int index = 0; index < micro_batches; ++index) backward(micro_batch(index));
    for (int index = 0; delays_weights && index < micro_batches; ++index)
      for (Executable& executable : executables) executable.backward_weights(micro_batch(index));
    end_step(executables, step, options, clip_gradient_norm);
  }
  StateDict merged;
  for (const Executable& executable : executables) merged.merge(executable.state());
  return merged;
}

// On every cut in two, on the finest one and on those given, with and without recomputation, and with delayed
// gradients of weights.
void check_cuts(const Graph& graph, const std::vector<std::vector<OpId>>& more) {
  const std::vector<OpId> positions = cut_positions(graph);
  for (const int micro_batches : {1, 3}) {
    std::vector<float> losses;
    const StateDict reference = train_cut(graph, {0}, 5, micro_batches, &losses);
    EXPECT_LT(losses.back(), losses.front() + 1) << "it trains";
    std::vector<std::vector<OpId>> cuts = more;
    for (const OpId position : positions) cuts.push_back({0, position});
    std::vector<OpId> finest{0};
    finest.insert(finest.end(), positions.begin(), positions.end());
    cuts.push_back(finest);
    cuts.push_back({0});
    for (const std::vector<OpId>& begins : cuts) {
      struct Way {
        bool recompute, delays_weights;
      };
      for (const Way& way : {Way{false, false}, Way{true, false}, Way{begins.size() % 2 == 0, true}}) {
        if (way.delays_weights && micro_batches == 1) continue;
        std::vector<float> cut_losses;
        const StateDict state = train_cut(graph, begins, 5, micro_batches, &cut_losses, {}, way.recompute,
                                          0.5, false, way.delays_weights);
        EXPECT_EQ(cut_losses, losses);
        ASSERT_EQ(state.size(), reference.size());
        for (const auto& [name, tensor] : reference) {
          const auto expected = tensor.view().bytes();
          EXPECT_EQ(std::memcmp(state.at(name).view().bytes().data(), expected.data(), expected.size()), 0)
              << name << " with " << begins.size() << " stages";
        }
      }
    }
  }
}

TEST(ExecutableCuts, StepsAlikeWithEveryOptimizer) {
  const Graph graph = branching_model();
  for (const std::string& name : names_of(optimizer_kinds())) {
    std::vector<float> losses;
    std::vector<float> cut_losses;
    const OptimizerSettings settings = optimizer_defaults(name);
    const StateDict reference = train_cut(graph, {0}, 3, 1, &losses, settings);
    const StateDict state = train_cut(graph, {0, 1, 2, 3, 4}, 3, 1, &cut_losses, settings);
    EXPECT_EQ(cut_losses, losses) << name;
    for (const auto& [parameter, tensor] : reference) {
      EXPECT_TRUE(std::ranges::equal(state.at(parameter).view().bytes(), tensor.view().bytes()))
          << name << ": " << parameter;
    }
  }
}

TEST(ExecutableCuts, ComputesTheSameBits) {
  // sum adds what conv_1 sent past conv_2: an edge that skips a stage.
  check_cuts(branching_model(), {{0, 1, 3}, {0, 1, 2, 3, 4}});
}

// The stage in the middle borrows a parameter that no loss depends on there.
TEST(ExecutableCuts, OfAUserWithoutGradientComputesTheSameBits) {
  GraphBuilder b;
  const ValueId w = b.parameter("w", {5}, {.kind = Initializer::Kind::kUniform, .bound = 0.5F});
  const ValueId first = b.mul("first", b.input("input", {5}), w);
  const ValueId aside = b.mul("aside", first, w);
  Graph graph = b.finish(b.mul("last", first, w));
  add_loss(graph, "mse");
  graph.mark_output(aside);
  check_cuts(graph, {{0, 1, 2}});
}

TEST(ExecutableCuts, OfImagesInBlocksComputesTheSameBits) {
  Graph graph = image_model();
  const KernelChoice choice = choose_kernels(graph, 6);
  EXPECT_EQ(choice.at("relu_1").ends_with("/blocked"), choice.at("conv_1").ends_with("/blocked"));
  EXPECT_EQ(choice.at("gate").find('/'), std::string::npos);
  check_cuts(graph, {{0, 5, 9}});
}

TEST(ExecutableCuts, TrainsAlikeInBf16AndNearF32) {
  if (!has_bf16()) GTEST_SKIP() << "this processor has none";
  const Graph graph = image_model();
  std::vector<float> losses, losses_cut, losses_f32;
  const StateDict whole_state = train_cut(graph, {0}, 5, 1, &losses, {}, false, 0.5, true);
  const StateDict cut_state = train_cut(graph, {0, 5, 9}, 5, 1, &losses_cut, {}, false, 0.5, true);
  train_cut(graph, {0}, 5, 1, &losses_f32);
  EXPECT_EQ(losses, losses_cut);
  for (const auto& [name, tensor] : whole_state)
    EXPECT_TRUE(std::ranges::equal(tensor.view().bytes(), cut_state.at(name).view().bytes())) << name;
  EXPECT_NE(losses, losses_f32);
  for (std::size_t step = 0; step < losses.size(); ++step)
    EXPECT_NEAR(losses[step], losses_f32[step], 0.05) << step;
}

TEST(ExecutableCuts, OfElementwiseOpsComputesTheSameBits) {
  const Graph graph = elementwise_model();
  EXPECT_GT(cut_positions(graph).size(), 10U);
  check_cuts(graph, {});
}

TEST(ExecutableCuts, OfMovingOpsComputesTheSameBits) {
  const Graph graph = moving_model();
  EXPECT_GT(cut_positions(graph).size(), 10U);
  check_cuts(graph, {});
}

TEST(ExecutableCuts, OfRecurrentLayersComputesTheSameBits) {
  const Graph graph = recurrent_model();
  EXPECT_GT(cut_positions(graph).size(), 3U);
  check_cuts(graph, {});
}

TEST(ExecutableCuts, OfSharedParametersComputesTheSameBits) {
  const Graph graph = tied_model_with_loss();
  EXPECT_GT(cut_positions(graph).size(), 12U);
  check_cuts(graph, {{0, 3, 6, 9, 12}});
}

}  // namespace
}  // namespace rookery
