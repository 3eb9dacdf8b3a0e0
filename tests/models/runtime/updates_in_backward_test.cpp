// Parameters that change in backward, as soon as nothing reads them any more, have the same bits as where all
// change at the end of a step.
#include "models/graph/passes/memory/updates_in_backward.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/differentiate.hpp"
#include "models/graph/passes/memory/memory_plan.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/runtime/optimizer.hpp"
#include "tests/models/runtime/random_batch.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kBatch = 6;

// Large parameters that are read in several ways: once, as a view, by two ops; and small ones.
Graph wide_model() {
  GraphBuilder b;
  const Initializer uniform{.kind = Initializer::Kind::kUniform, .bound = 0.1F};
  ValueId x = b.linear("dense_1", b.flatten("flat", b.input("input", {2, 6, 6})), 64);
  x = b.layer_norm("norm", b.gelu("gelu", x));
  const ValueId twice = b.parameter("twice", {64, 64}, uniform);
  x = b.apply("first", "MatMul", {x, twice});
  x = b.apply("second", "MatMul", {b.relu("relu", x), twice});
  const ValueId table = b.parameter("table", {8, 8, 64}, uniform);
  x = b.apply("viewed", "MatMul", {x, b.reshape("table_rows", table, {64, 64})});
  x = b.dropout("drop", x, 0.25F);
  Graph graph = b.finish(b.linear("dense_2", x, 5));
  add_loss(graph, "cross_entropy");
  return graph;
}

std::vector<Graph> models() {
  return {wide_model(), image_model(), recurrent_model(32)};
}

struct Trained {
  StateDict state;
  std::vector<float> losses;
  std::vector<double> squares;
};

Trained train(const Graph& graph, CompileOptions options, bool in_backward) {
  options.updates_in_backward = in_backward;
  Executable executable(whole(graph), options, initial_state(graph, kSeed));
  Trained trained;
  for (std::int64_t step = 0; step < 3; ++step) {
    const MicroBatch micro_batch{.step = step, .size = kBatch};
    fill(executable, micro_batch, random_batch(graph, kBatch, static_cast<std::uint64_t>(step)));
    executable.forward(micro_batch);
    trained.losses.push_back(loss_of(executable, micro_batch));
    const double rate = options.optimizer.learning_rate / static_cast<double>(step + 1);
    if (in_backward) executable.begin_update(micro_batch, rate, step != 1);
    executable.backward_inputs(micro_batch);
    executable.backward_weights(micro_batch);
    for (std::size_t i = 0; i < executable.stage().shared.size(); ++i) executable.sum_gradient(i);
    if (step != 1) trained.squares.push_back(executable.squared_gradients().value());
    executable.update(step, rate);
  }
  for (const auto& [name, view] : executable.training_state()) {
    Tensor tensor(view.type);
    copy(view, tensor.view());
    trained.state.emplace(name, std::move(tensor));
  }
  return trained;
}

void expect_same(const Trained& found, const Trained& expected, const std::string& what) {
  EXPECT_EQ(found.losses, expected.losses) << what;
  EXPECT_EQ(found.squares, expected.squares) << what;
  ASSERT_EQ(found.state.size(), expected.state.size()) << what;
  for (const auto& [name, tensor] : expected.state) {
    EXPECT_TRUE(std::ranges::equal(found.state.at(name).view().bytes(), tensor.view().bytes()))
        << what << " " << name;
  }
}

TEST(UpdatesInBackward, ChangeNoBitWithAnyOptimizer) {
  for (const Graph& graph : models()) {
    CompileOptions options = options_for(graph, kBatch);
    for (const OptimizerKind& kind : optimizer_kinds()) {
      options.optimizer = kind.defaults;
      expect_same(train(graph, options, true), train(graph, options, false), kind.name);
    }
  }
}

TEST(UpdatesInBackward, ChangeNoBitWhereForwardsRunAgain) {
  for (const Graph& graph : models()) {
    CompileOptions options = options_for(graph, kBatch);
    options.recompute = true;
    options.optimizer.weight_decay = 0.01;
    expect_same(train(graph, options, true), train(graph, options, false), "recompute");
  }
}

TEST(UpdatesInBackward, TakeNoMemoryForLargeGradients) {
  for (const Graph& graph : models()) {
    CompileOptions options = options_for(graph, kBatch);
    const MemoryUse without = memory_use(whole(graph), options);
    options.updates_in_backward = true;
    const MemoryUse with = memory_use(whole(graph), options);
    EXPECT_LT(with.gradients, without.gradients);
    EXPECT_LT(with.total(), without.total());
    EXPECT_EQ(with.optimizer, without.optimizer);
    EXPECT_EQ(with.total(), Executable(whole(graph), options, initial_state(graph, kSeed)).memory().total());
  }
}

TEST(UpdatesInBackward, AreOfLargeParametersThatOneOpUses) {
  const Graph graph = wide_model();
  const TrainingGraph training =
      with_updates_in_backward(differentiate(graph, whole(graph).gradient_request(graph)), {"dense_1.bias"});
  std::vector<std::string> names;
  for (const UpdateInBackward& update : updates_in_backward(training)) {
    names.push_back(training.graph.value(update.parameter).name);
    EXPECT_NE(training.phases[static_cast<std::size_t>(update.after)], Phase::kForward);
  }
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"dense_1.weight", "table"}));
}

TEST(UpdatesInBackward, ComeWhenNothingReadsTheParameterAnyMore) {
  for (const Graph& graph : models()) {
    const TrainingGraph training =
        with_updates_in_backward(differentiate(graph, whole(graph).gradient_request(graph)), {});
    ASSERT_FALSE(training.updated_in_backward.empty());
    for (const UpdateInBackward& update : updates_in_backward(training)) {
      const auto is_later = [&](OpId op) {
        const auto place = [&](OpId id) {
          return std::pair(training.phases[static_cast<std::size_t>(id)], id);
        };
        return place(op) > place(update.after);
      };
      EXPECT_FALSE(is_later(training.graph.value(update.gradient).producer));
      for (OpId op = 0; op < static_cast<OpId>(training.graph.ops().size()); ++op) {
        const bool reads = std::ranges::any_of(training.graph.op(op).inputs, [&](ValueId input) {
          return input != kNoValue && memory_owner(training.graph, input) == update.parameter;
        });
        EXPECT_FALSE(reads && is_later(op)) << training.graph.op(op).name;
      }
    }
  }
}

}  // namespace
}  // namespace rookery
