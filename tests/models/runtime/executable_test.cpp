#include "models/runtime/executable.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/graph/state/initialize.hpp"
#include "tests/models/runtime/random_batch.hpp"

namespace rookery {
namespace {

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
  const double squares = executable.squared_gradients().value();
  EXPECT_NEAR(squares, expected, 1e-9 * expected);
  executable.scale_gradients(static_cast<float>(1 / std::sqrt(squares)));
  EXPECT_NEAR(executable.squared_gradients().value(), 1, 1e-5);
}

// Three steps, of which the second's update is made, followed by a forward, and taken back; or not.
StateDict state_after_three_steps(const Graph& graph, const OptimizerSettings& optimizer, bool takes_back) {
  CompileOptions options = options_for(graph, 6);
  options.optimizer = optimizer;
  options.updates_ahead = takes_back;
  Executable executable(whole(graph), options, initial_state(graph, kSeed));
  const auto forward = [&](std::int64_t step) {
    const MicroBatch micro_batch{.step = step, .size = 6};
    fill(executable, micro_batch, random_batch(graph, 6, static_cast<int>(step)));
    executable.forward(micro_batch);
  };
  for (const std::int64_t step : {0, 1, 2}) {
    forward(step);
    const MicroBatch micro_batch{.step = step, .size = 6};
    executable.backward_inputs(micro_batch);
    executable.backward_weights(micro_batch);
    for (std::size_t i = 0; i < executable.stage().shared.size(); ++i) executable.sum_gradient(i);
    if (takes_back && step == 1) {
      executable.update_ahead(step, optimizer.learning_rate);
      forward(step + 1);
      executable.take_back_update();
    }
    executable.scale_gradients(0.5F);
    executable.update(step, optimizer.learning_rate);
  }
  StateDict state;
  for (const auto& [name, view] : executable.training_state()) {
    Tensor tensor(view.type);
    copy(view, tensor.view());
    state.emplace(name, std::move(tensor));
  }
  return state;
}

TEST(Executable, AnUpdateThatIsTakenBackLeavesNoTrace) {
  for (const Graph& graph : {branching_model(), tied_model_with_loss()}) {
    for (const OptimizerKind& kind : optimizer_kinds()) {
      const StateDict expected = state_after_three_steps(graph, kind.defaults, false);
      const StateDict found = state_after_three_steps(graph, kind.defaults, true);
      ASSERT_EQ(found.size(), expected.size());
      for (const auto& [name, tensor] : expected)
        EXPECT_TRUE(std::ranges::equal(found.at(name).view().bytes(), tensor.view().bytes()))
            << kind.name << " " << name;
    }
  }
}

// Others change the weights between an update and the prediction, as averaging does: that is no part of what
// goes on.
TEST(Executable, PredictedWeightsGoOnByWhatTheUpdateHasChanged) {
  const Graph graph = branching_model();
  CompileOptions options = options_for(graph, 6);
  options.slots = 2;
  options.stashes_weights = true;
  const StateDict before = initial_state(graph, kSeed);
  Executable executable(whole(graph), options, before);
  const auto forward = [&](Executable& of, std::int64_t step, int slot) {
    const MicroBatch micro_batch{.step = step, .size = 6, .slot = slot};
    fill(of, micro_batch, random_batch(graph, 6, static_cast<std::uint64_t>(step)));
    of.forward(micro_batch);
    return loss_of(of, micro_batch);
  };
  forward(executable, 0, 0);
  executable.backward_inputs({.step = 0, .size = 6});
  executable.backward_weights({.step = 0, .size = 6});
  executable.update(0, 0.01);
  StateDict averaged = executable.state();
  StateDict expected = executable.state();
  for (const ValueId id : graph.parameters()) {
    const std::string& name = graph.value(id).name;
    const auto old = before.at(name).view().as<float>();
    const auto numbers = averaged.at(name).as<float>();
    const auto next = expected.at(name).as<float>();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      next[i] = numbers[i] - old[i];
      numbers[i] *= 0.75F;
    }
    host_arithmetic().scale_and_add(next.data(), 2.5F, numbers.data(), next.size());
    copy(averaged.at(name).view(), executable.training_state().at(name));
  }
  executable.predict_weights(2.5, true);
  Executable other(whole(graph), options, expected);
  EXPECT_EQ(forward(executable, 1, 1), forward(other, 1, 1));
}

TEST(Executable, ACopyForUpdatesThatAreTakenBackIsCounted) {
  const Graph graph = branching_model();
  CompileOptions options = options_for(graph, 6);
  const MemoryUse without = memory_use(whole(graph), options);
  options.updates_ahead = true;
  const MemoryUse with = memory_use(whole(graph), options);
  EXPECT_EQ(without.kept, 0);
  EXPECT_GE(with.kept, without.optimizer + without.optimizer / 2);  // Adam's two states, and the parameters
  EXPECT_LE(with.kept, without.optimizer + without.parameters);
  EXPECT_EQ(with.total(), without.total() + with.kept);
}

TEST(Executable, AStepWithoutSamplesHasTheGradientsThatItIsGiven) {
  const Graph graph = tied_model_with_loss();
  CompileOptions options = options_for(graph, 6);
  options.optimizer = {.name = "sgd", .learning_rate = 1};
  const StateDict before = initial_state(graph, kSeed);
  Executable executable(whole(graph), options, before);
  executable.skip_step(4);
  executable.finish_gradients();
  EXPECT_EQ(executable.squared_gradients().value(), 0);
  for (const ValueId id : graph.parameters()) {
    write_from_host(executable.gradient_place(graph.value(id).name),
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
  options.micro_batches = 2;
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
  options.micro_batches = 2;
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

TEST(Executable, ADropoutOfNothingIsNoWork) {
  const auto model = [](std::optional<float> ratio) {
    GraphBuilder b;
    ValueId x = b.relu("relu", b.linear("dense_1", b.input("input", {8}), 16));
    if (ratio) x = b.dropout("drop", x, *ratio);
    Graph graph = b.finish(b.linear("dense_2", x, 5));
    add_loss(graph, "cross_entropy");
    return graph;
  };
  const auto train = [](const Graph& graph, std::int64_t& bytes) {
    Executable executable(whole(graph), options_for(graph, 6), initial_state(graph, kSeed));
    bytes = executable.memory().stash;
    const MicroBatch micro_batch{.size = 6};
    fill(executable, micro_batch, random_batch(graph, 6, 3));
    executable.forward(micro_batch);
    executable.backward_inputs(micro_batch);
    executable.backward_weights(micro_batch);
    executable.finish_gradients();
    const HostTensor gradient(executable.gradient("dense_1.weight"));
    const auto all = gradient.view().as<float>();
    return std::vector<float>(all.begin(), all.end());
  };
  std::int64_t without = 0, of_nothing = 0, of_half = 0;
  EXPECT_EQ(train(model(0), of_nothing), train(model(std::nullopt), without));
  EXPECT_EQ(of_nothing, without);
  train(model(0.5F), of_half);
  EXPECT_GT(of_half, without) << "a mask";
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
  EXPECT_EQ(stashing.versions, stashing.gradients * 3) << "two more versions, and what an update changes";
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
