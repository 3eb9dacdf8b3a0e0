#include "models/graph/passes/memory/recompute.hpp"
#include "models/graph/passes/differentiate.hpp"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include "models/graph/ops/builder.hpp"
#include "models/graph/stage.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_sections.hpp"

namespace rookery {
namespace {

// Eight blocks of a wide and a narrow layer.
Graph blocks() {
  GraphBuilder b;
  ValueId x = b.input("input", {16});
  for (int i = 0; i < 8; ++i) {
    const std::string block = std::to_string(i);
    x = b.linear("narrow_" + block, b.gelu("gelu_" + block, b.linear("wide_" + block, x, 64)), 16);
    x = b.dropout("drop_" + block, b.batch_norm("norm_" + block, x), 0.1F);
  }
  Graph graph = b.finish(b.linear("last", x, 5));
  add_loss(graph, "cross_entropy");
  return graph;
}

std::size_t planned_bytes(const TrainingGraph& training, std::int64_t size, int slots = 1) {
  const std::vector<std::size_t> scratch(training.graph.ops().size(), 0);
  const MemoryPlan plan = plan_memory(training, training.graph.types(size), scratch, {});
  return plan.stash_bytes * static_cast<std::size_t>(slots) + plan.transient_bytes;
}

RecomputedGraph recompute_best(const TrainingGraph& training, std::int64_t size, int slots = 1) {
  const std::vector<std::size_t> scratch(training.graph.ops().size(), 0);
  const std::vector<TensorType> types = training.graph.types(size);
  return Recomputation(training, types, scratch, {}).best(slots).graph;
}

TEST(Recompute, OpsOfASectionRunAgainBeforeItsGradients) {
  const TrainingGraph training = differentiate(blocks(), {});
  const Graph& before = training.graph;
  const OpId third = before.value(before.at("wide_3_out")).producer;
  const RecomputedGraph made = recompute(training, {.begins = {0, third}});
  const Graph& graph = made.training.graph;
  const auto position = [&](const std::string& name) {
    return std::ranges::find(graph.ops(), name, &Op::name) - graph.ops().begin();
  };
  const auto is_there = [&](const std::string& name) { return position(name) < std::ssize(graph.ops()); };
  EXPECT_TRUE(is_there("gelu_0.again"));
  EXPECT_FALSE(is_there("gelu_3.again")) << "of the last section, which is kept";
  EXPECT_FALSE(is_there("narrow_7.again"));
  EXPECT_TRUE(is_there("drop_2.again")) << "its output passes to the last section, but its mask does not";
  EXPECT_LT(position("last.GemmGradInput"), position("gelu_0.again"));
  EXPECT_LT(position("gelu_2.again"), position("gelu_2.GeluGrad"));
  const Op& norm = graph.op(static_cast<OpId>(position("norm_1.again")));
  EXPECT_EQ(norm.text("forward", ""), "norm_1");
  EXPECT_EQ(norm.outputs[1], kNoValue) << "running statistics are updated once";
  EXPECT_EQ(norm.outputs[3], kNoValue);
  EXPECT_EQ(made.values.size(), graph.values().size());
  EXPECT_EQ(made.ops.size(), graph.ops().size());
  EXPECT_EQ(before.op(made.ops[position("norm_1.again")]).name, "norm_1");
  for (const auto& [parameter, uses] : training.parameter_gradients) {
    const ValueId same = graph.at(before.value(parameter).name);
    const std::vector<ValueId>& made_uses = made.training.parameter_gradients.at(same);
    ASSERT_EQ(made_uses.size(), uses.size());
    for (std::size_t i = 0; i < uses.size(); ++i)
      EXPECT_EQ(graph.value(made_uses[i]).name, before.value(uses[i]).name);
  }
}

TEST(Recompute, TakesLessMemory) {
  const TrainingGraph training = in_one_backward_phase(differentiate(blocks(), {}));
  for (const int slots : {1, 4}) {
    const std::size_t plain = planned_bytes(training, 64, slots);
    const std::size_t again = planned_bytes(recompute_best(training, 64, slots).training, 64, slots);
    std::printf("%d slots: %zu bytes, recomputed %zu\n", slots, plain, again);
    EXPECT_LT(static_cast<double>(again), 0.6 * static_cast<double>(plain));
  }
}

RC_GTEST_PROP(Recompute, PlansOfRandomSectionsAreRight, ()) {
  for (const Stage& stage : test::random_stages()) {
    const TrainingGraph training = differentiate(stage.graph, stage.gradient_request());
    const TrainingGraph made = recompute(training, test::random_sections(stage)).training;
    test::check_plan(made, 3, test::any_step_shape());
  }
  RC_ASSERT(!testing::Test::HasFailure());
}

TEST(Recompute, IsTheSameForSlotsInAnyOrder) {
  const TrainingGraph training = in_one_backward_phase(differentiate(blocks(), {}));
  const std::vector<std::size_t> scratch(training.graph.ops().size(), 0);
  const std::vector<TensorType> types = training.graph.types(64);
  Recomputation all(training, types, scratch, {});
  for (const int slots : {4, 1, 2, 8, 2}) {
    Recomputation alone(training, types, scratch, {});
    EXPECT_EQ(all.best(slots).graph.ops, alone.best(slots).graph.ops) << slots;
    EXPECT_EQ(all.best(slots).plan.stash_bytes, alone.best(slots).plan.stash_bytes) << slots;
  }
}

RC_GTEST_PROP(Recompute, TheBestPlanIsNeverLargerThanWithout, ()) {
  const Graph graph = test::RandomGraph::make(*rc::gen::arbitrary<unsigned>(), *rc::gen::inRange(1, 40));
  const TrainingGraph training = differentiate(graph, {});
  const int slots = *rc::gen::inRange(1, 5);
  RC_ASSERT(planned_bytes(recompute_best(training, 8, slots).training, 8, slots) <=
            planned_bytes(training, 8, slots));
}

}  // namespace
}  // namespace rookery
