#include "models/runtime/executable.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/named_rows.hpp"
#include "models/base/rng.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/kernels/precision.hpp"
#include "tests/models/runtime/test_processor.hpp"
#include "tests/models/runtime/trained_models.hpp"

namespace rookery {
namespace {

constexpr std::uint64_t kSeed = 7;

struct Batch {
  Tensor data, labels, ids;
};

Batch random_batch(const Graph& graph, std::int64_t size, std::uint64_t stream) {
  const std::vector<TensorType> types = graph.types(size);
  const auto make = [&](const char* name) { return Tensor(types[graph.at(name)]); };
  Batch batch{make("input"), make(kLabels), make(kSampleIds)};
  CounterRng rng(rng_key(kSeed, "batch"), stream);
  for (float& x : batch.data.as<float>()) x = 2 * rng.next_float() - 1;
  for (std::int64_t& label : batch.labels.as<std::int64_t>()) label = rng.next_below(5);
  return batch;
}

void fill(Executable& executable, const MicroBatch& micro_batch, const Batch& batch) {
  copy(batch.data.view(), executable.input(0, micro_batch));
  copy(batch.labels.view(), executable.input(1, micro_batch));
  copy(batch.ids.view(), executable.input(2, micro_batch));
}

Stage whole(const Graph& graph) {
  const std::vector<OpId> begins{0};
  return std::move(cut(graph, begins).front());
}

CompileOptions options_for(const Graph& graph, std::int64_t size) {
  return {.training_sizes = {size},
          .inference_sizes = {size},
          .kernels = choose_kernels(graph, size),
          .seed = kSeed,
          .optimizer = {},
          .processor = &test_processor()};
}

float loss_of(const Executable& executable, const MicroBatch& micro_batch) {
  const auto& outputs = executable.stage().outputs;
  const auto loss = std::ranges::find(outputs, kLoss, &StageOutput::value);
  const auto i = static_cast<std::size_t>(loss - outputs.begin());
  return HostTensor(executable.output(i, micro_batch)).view().as<float>()[0];
}

void check_gradients(const Graph& graph) {
  const MicroBatch micro_batch{.size = 6};
  const Batch batch = random_batch(graph, 6, 0);
  const StateDict start = initial_state(graph, kSeed);
  Executable executable(whole(graph), options_for(graph, 6), start);
  fill(executable, micro_batch, batch);
  executable.forward(micro_batch);
  executable.backward_inputs(micro_batch);
  executable.backward_weights(micro_batch);
  const auto loss_at = [&](const std::string& name, std::size_t element, float shift) {
    StateDict moved;
    for (const auto& [key, tensor] : start) moved.emplace(key, tensor.clone());
    moved.at(name).as<float>()[element] += shift;
    Executable shifted(whole(graph), options_for(graph, 6), moved);
    fill(shifted, micro_batch, batch);
    shifted.forward(micro_batch);
    return static_cast<double>(loss_of(shifted, micro_batch));
  };
  for (std::size_t i = 0; i < executable.stage().shared.size(); ++i) executable.sum_gradient(i);
  executable.finish_gradients();
  for (const ValueId id : graph.parameters()) {
    const std::string& name = graph.value(id).name;
    const HostTensor there(executable.gradient(name));
    const auto gradient = there.view().as<float>();
    for (std::size_t element = 0; element < gradient.size(); element += 1 + gradient.size() / 3) {
      constexpr float kShift = 4e-3F;
      const double slope =
          (loss_at(name, element, kShift) - loss_at(name, element, -kShift)) / (2.0 * kShift);
      EXPECT_NEAR(gradient[element], slope, 2e-3 + 0.03 * std::abs(slope)) << name << " " << element;
    }
  }
}

TEST(Executable, GradientsAreThoseOfCentralDifferences) {
  check_gradients(branching_model(false));
  check_gradients(elementwise_model(false));
  check_gradients(moving_model(false));
  check_gradients(recurrent_model(8));
  check_gradients(tied_model_with_loss());
}

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
  double squares = 0;
  for (std::size_t k = executables.size(); k-- > 0;) {
    Executable& executable = executables[k];
    for_each_shared(executable, [&](const SharedParameter& shared, std::size_t i) {
      const ConstTensorView sum = executable.sum_gradient(i);
      if (shared.gradient_to == kNoStage) return;
      const auto to = static_cast<std::size_t>(shared.gradient_to);
      copy(sum, executables[to].partial_sum(place_on(shared.gradient_to, shared.parameter)));
    });
    squares = executable.add_squared_gradients(squares);
  }
  const double factor = clip_gradient_norm / std::sqrt(squares);
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
// all forwards of a step before its backwards.
StateDict train_cut(const Graph& graph, const std::vector<OpId>& begins, int steps, int micro_batches,
                    std::vector<float>* losses, const OptimizerSettings& optimizer = {},
                    bool recompute = false, double clip_gradient_norm = 0.5, bool bf16 = false) {
  const std::int64_t size = 6;
  const std::vector<Stage> stages = cut(graph, begins);
  CompileOptions options = options_for(graph, size);
  options.slots = micro_batches;
  options.accumulates = micro_batches > 1;
  options.optimizer = optimizer;
  if (bf16) options.kernels = in_bf16(graph, std::move(options.kernels));
  options.recompute = recompute;
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
      executables[k].backward_weights(mb);
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
    end_step(executables, step, options, clip_gradient_norm);
  }
  StateDict merged;
  for (const Executable& executable : executables) merged.merge(executable.state());
  return merged;
}

// On every cut in two, on the finest one and on those given, with and without recomputation.
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
      for (const bool recompute : {false, true}) {
        std::vector<float> cut_losses;
        const StateDict state = train_cut(graph, begins, 5, micro_batches, &cut_losses, {}, recompute);
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

TEST(Executable, EveryOptimizerStepsAlikeInEveryCut) {
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

TEST(Executable, EveryCutComputesTheSameBits) {
  // sum adds what conv_1 sent past conv_2: an edge that skips a stage.
  check_cuts(branching_model(), {{0, 1, 3}, {0, 1, 2, 3, 4}});
}

TEST(Executable, EveryCutOfImagesInBlocksComputesTheSameBits) {
  Graph graph = image_model();
  const KernelChoice choice = choose_kernels(graph, 6);
  EXPECT_EQ(choice.at("relu_1").ends_with("/blocked"), choice.at("conv_1").ends_with("/blocked"));
  EXPECT_EQ(choice.at("gate").find('/'), std::string::npos);
  check_cuts(graph, {{0, 5, 9}});
}

TEST(Executable, Bf16TrainsAlikeInEveryCutAndNearF32) {
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

TEST(Executable, EveryCutOfElementwiseOpsComputesTheSameBits) {
  const Graph graph = elementwise_model();
  EXPECT_GT(cut_positions(graph).size(), 10U);
  check_cuts(graph, {});
}

TEST(Executable, EveryCutOfMovingOpsComputesTheSameBits) {
  const Graph graph = moving_model();
  EXPECT_GT(cut_positions(graph).size(), 10U);
  check_cuts(graph, {});
}

TEST(Executable, EveryCutOfRecurrentLayersComputesTheSameBits) {
  const Graph graph = recurrent_model();
  EXPECT_GT(cut_positions(graph).size(), 3U);
  check_cuts(graph, {});
}

TEST(Executable, ConstantsAreNoState) {
  const Graph graph = moving_model();
  const Stage stage = whole(graph);
  Executable executable(stage, options_for(graph, 6), initial_state(graph, kSeed));
  EXPECT_FALSE(executable.state().contains("mask"));
  std::int64_t bytes = 0;
  for (const ValueId id : graph.constants())
    bytes += static_cast<std::int64_t>(align_up(graph.value(id).type.bytes()));
  for (const ValueId id : graph.parameters())
    bytes += static_cast<std::int64_t>(align_up(graph.value(id).type.bytes()));
  EXPECT_EQ(executable.memory().parameters, bytes);
  StateDict with_mask = initial_state(graph, kSeed);
  with_mask.emplace("mask", Tensor(DType::kF32, {12}));
  EXPECT_THROW(Executable(stage, options_for(graph, 6), with_mask), DataError);
}

TEST(Executable, EveryCutOfSharedParametersComputesTheSameBits) {
  const Graph graph = tied_model_with_loss();
  EXPECT_GT(cut_positions(graph).size(), 12U);
  check_cuts(graph, {{0, 3, 6, 9, 12}});
}

TEST(Executable, ABorrowedParameterTakesNoOptimizerState) {
  const Graph graph = tied_model_with_loss();
  const CompileOptions options = options_for(graph, 6);
  const std::vector<Stage> stages = cut(graph, std::vector<OpId>{0, 10});
  ASSERT_EQ(stages[1].shared.size(), 4U);
  Executable executable(stages[1], options, [&] {
    StateDict state;
    for (auto& [name, tensor] : initial_state(graph, kSeed)) {
      if (stages[1].graph.find(name)) state.emplace(name, tensor.clone());
    }
    return state;
  }());
  StateDict state = executable.state();
  EXPECT_EQ(state.size(), 2U) << "only classes.weight and classes.bias are its own";
  for (const auto& [name, view] : executable.training_state())
    EXPECT_TRUE(!is_optimizer_key(name) || name.find("/classes.") != std::string::npos) << name;
  const MemoryUse memory = executable.memory();
  EXPECT_LT(memory.optimizer, 2 * memory.parameters);
  EXPECT_EQ(memory.total(), memory_use(stages[1], options).total());
}

TEST(Executable, ScalingGradientsByTheirNormClipsThem) {
  const Graph graph = tied_model_with_loss();
  Executable executable(whole(graph), options_for(graph, 6), initial_state(graph, kSeed));
  const MicroBatch micro_batch{.size = 6};
  fill(executable, micro_batch, random_batch(graph, 6, 0));
  executable.forward(micro_batch);
  executable.backward_inputs(micro_batch);
  executable.backward_weights(micro_batch);
  executable.finish_gradients();
  double expected = 0;
  for (const ValueId id : graph.parameters()) {
    const HostTensor there(executable.gradient(graph.value(id).name));
    for (const double gradient : there.view().as<float>()) expected += gradient * gradient;
  }
  const double squares = executable.add_squared_gradients(0);
  EXPECT_NEAR(squares, expected, 1e-9 * expected);
  executable.scale_gradients(static_cast<float>(1 / std::sqrt(squares)));
  EXPECT_NEAR(executable.add_squared_gradients(2), 3, 1e-5);
}

TEST(Executable, AStepWithoutSamplesHasTheGradientsThatItIsGiven) {
  const Graph graph = tied_model_with_loss();
  CompileOptions options = options_for(graph, 6);
  options.optimizer = {.name = "sgd", .learning_rate = 1};
  const StateDict before = initial_state(graph, kSeed);
  Executable executable(whole(graph), options, before);
  executable.skip_step(4);
  executable.finish_gradients();
  EXPECT_EQ(executable.add_squared_gradients(0), 0);
  for (const ValueId id : graph.parameters()) {
    write_from_host(executable.owned_gradient(graph.value(id).name),
                    [](TensorView gradient) { std::ranges::fill(gradient.as<float>(), 0.5F); });
  }
  executable.update(4, 1);
  const StateDict after = executable.state();
  for (const ValueId id : graph.parameters()) {
    const std::string& name = graph.value(id).name;
    const auto numbers = after.at(name).as<float>();
    for (std::size_t i = 0; i < numbers.size(); ++i)
      ASSERT_EQ(numbers[i], before.at(name).as<float>()[i] - 0.5F) << name;
  }
}

TEST(Executable, MicroBatchesAccumulateTheirMeanGradient) {
  GraphBuilder b;
  ValueId x = b.input("input", {2, 6, 6});
  x = b.linear("dense", b.flatten("flat", x), 5);
  Graph graph = b.finish(x);
  add_loss(graph, "cross_entropy");
  const Batch one = random_batch(graph, 4, 1);
  const Batch two = random_batch(graph, 4, 2);
  CompileOptions options = options_for(graph, 4);
  options.accumulates = true;
  const StateDict start = initial_state(graph, kSeed);
  Executable executable(whole(graph), options, start);
  std::int64_t step = 0;
  const auto gradient_of = [&](const std::vector<const Batch*>& batches) {
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const MicroBatch mb{.step = step, .index = static_cast<int>(i), .size = 4, .loss_weight = 0.5F};
      fill(executable, mb, *batches[i]);
      executable.forward(mb);
      executable.backward_inputs(mb);
      executable.backward_weights(mb);
    }
    executable.update(step++, 0);
    const HostTensor there(executable.gradient("dense.weight"));
    const auto gradient = there.view().as<float>();
    return std::vector<float>(gradient.begin(), gradient.end());
  };
  const std::vector<float> first = gradient_of({&one});
  const std::vector<float> both = gradient_of({&one, &two});
  const std::vector<float> second = gradient_of({&two});
  for (std::size_t i = 0; i < both.size(); ++i) EXPECT_EQ(both[i], first[i] + second[i]);
}

// What it says is done stays as it is, and comes as backward goes; what several ops use it leaves out.
void expect_gradients_when_done(const Graph& graph, const std::vector<std::string>& left_out) {
  CompileOptions options = options_for(graph, 3);
  options.slots = 2;
  options.accumulates = true;
  Executable executable(whole(graph), options, initial_state(graph, kSeed));
  std::map<std::string, std::vector<float>> done;
  const auto keep = [&](const std::string& parameter) {
    const HostTensor there(executable.gradient_place(parameter));
    const auto numbers = there.view().as<float>();
    EXPECT_TRUE(done.emplace(parameter, std::vector<float>(numbers.begin(), numbers.end())).second);
  };
  for (int index = 0; index < 2; ++index) {
    const MicroBatch micro_batch{.index = index, .size = 3, .slot = index, .loss_weight = 0.5F};
    fill(executable, micro_batch, random_batch(graph, 3, static_cast<std::uint64_t>(index)));
    executable.forward(micro_batch);
    const Executable::GradientDone done_now = index == 1 ? keep : Executable::GradientDone();
    executable.backward_inputs(micro_batch, done_now);
    executable.backward_weights(micro_batch, done_now);
  }
  for (std::size_t i = 0; i < executable.stage().shared.size(); ++i) executable.sum_gradient(i);
  executable.finish_gradients();
  for (const ValueId id : graph.parameters()) {
    const std::string& name = graph.value(id).name;
    const bool is_left_out = std::ranges::find(left_out, name) != left_out.end();
    ASSERT_EQ(done.contains(name), !is_left_out) << name;
    if (is_left_out) continue;
    const HostTensor last(executable.gradient(name));
    EXPECT_TRUE(std::ranges::equal(done.at(name), last.view().as<float>())) << name;
  }
}

TEST(Executable, SaysWhichGradientsAreDone) {
  expect_gradients_when_done(branching_model(false), {});
  expect_gradients_when_done(recurrent_model(8), {});
  expect_gradients_when_done(tied_model_with_loss(), {"key", "core.weight", "core.bias", "gain"});
}

TEST(Executable, InferenceUsesRunningStatisticsAndNoDropout) {
  const Graph graph = branching_model();
  Executable executable(whole(graph), options_for(graph, 6), initial_state(graph, kSeed));
  const MicroBatch training{.size = 6};
  const MicroBatch inference{.mode = Mode::kInference, .size = 6};
  const Batch batch = random_batch(graph, 6, 3);
  const auto predict = [&] {
    fill(executable, inference, batch);
    executable.forward(inference);
    const HostTensor there(executable.output(0, inference));
    const auto out = there.view().as<float>();
    return std::vector<float>(out.begin(), out.end());
  };
  const std::vector<float> before = predict();
  EXPECT_EQ(predict(), before) << "inference changes nothing";
  fill(executable, training, batch);
  executable.forward(training);
  executable.backward_inputs(training);
  executable.backward_weights(training);
  EXPECT_NE(predict(), before) << "training moved the running statistics";
  EXPECT_EQ(executable.state().at("bn_1.num_batches_tracked").as<std::int64_t>()[0], 1);
}

TEST(Executable, MemoryIsKnownBeforeItIsTaken) {
  const Graph graph = branching_model();
  CompileOptions options = options_for(graph, 6);
  const MemoryUse planned = memory_use(whole(graph), options);
  const Executable executable(whole(graph), options, initial_state(graph, kSeed));
  EXPECT_EQ(executable.memory().total(), planned.total());
  EXPECT_EQ(planned.gradients * 2, planned.optimizer) << "Adam keeps two numbers a parameter";
  options.slots = 3;
  const MemoryUse three = memory_use(whole(graph), options);
  EXPECT_EQ(three.stash, 3 * planned.stash);
  EXPECT_EQ(three.workspace, planned.workspace);
  EXPECT_GT(planned.program, 0);
  EXPECT_EQ(three.versions, 0);
  options.stashes_weights = true;
  const MemoryUse stashing = memory_use(whole(graph), options);
  EXPECT_GT(stashing.versions, 0);
  EXPECT_EQ(stashing.total(), three.total() + stashing.versions);
  EXPECT_EQ(stashing.versions, stashing.gradients * 2) << "two more copies of what is trained";
}

TEST(Executable, MissingOrForeignStateIsRefused) {
  const Graph graph = branching_model();
  StateDict state = initial_state(graph, kSeed);
  state.erase("conv_2.bias");
  EXPECT_THROW(Executable(whole(graph), options_for(graph, 6), state), DataError);
}

TEST(Executable, SizesThatWereNotCompiledAreBugs) {
  const Graph graph = branching_model();
  Executable executable(whole(graph), options_for(graph, 6), initial_state(graph, kSeed));
  EXPECT_THROW(executable.forward({.size = 7}), BugError);
  EXPECT_THROW(executable.forward({.size = 6, .slot = 1}), BugError);
}

}  // namespace
}  // namespace rookery
