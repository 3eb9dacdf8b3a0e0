#include "models/graph/memory_plan.hpp"

#include <gtest/gtest.h>

#include <map>

#include "models/graph/builder.hpp"
#include "models/graph/loss.hpp"
#include "models/graph/ops.hpp"

namespace rookery {
namespace {

Graph chain() {
  GraphBuilder b;
  ValueId x = b.input("input", {16});
  for (int i = 0; i < 6; ++i) {
    x = b.linear("dense_" + std::to_string(i), x, 32 + 16 * (i % 3));
    x = b.relu("relu_" + std::to_string(i), x);
  }
  x = b.linear("last", x, 10);
  Graph graph = b.finish(x);
  add_loss(graph, "cross_entropy");
  return graph;
}

// Runs the ops in order on a memory of labels: whatever an op reads must still be what was written
// for that value. Scratch memory is soiled at every op.
void expect_no_value_is_overwritten(const TrainingGraph& training, const std::vector<TensorType>& types,
                                    const std::vector<std::size_t>& scratch, const MemoryPlan& plan) {
  const Graph& graph = training.graph;
  std::map<std::pair<Placement, std::size_t>, ValueId> memory;
  const auto for_words = [&](ValueId value, const auto& action) {
    const ValuePlace& place = plan.places[static_cast<std::size_t>(value)];
    if (place.placement != Placement::kStash && place.placement != Placement::kTransient) return;
    for (std::size_t at = 0; at < types[static_cast<std::size_t>(value)].bytes(); at += 4) {
      action(memory[{place.placement, place.offset + at}]);
    }
    const std::size_t end = place.offset + types[static_cast<std::size_t>(value)].bytes();
    ASSERT_LE(end, place.placement == Placement::kStash ? plan.stash_bytes : plan.transient_bytes);
  };
  for (const ValueId input : graph.inputs()) {
    for_words(input, [&](ValueId& word) { word = input; });
  }
  for (const Phase phase : {Phase::kForward, Phase::kBackwardInputs, Phase::kBackwardWeights}) {
    for (std::size_t i = 0; i < graph.ops().size(); ++i) {
      const Op& op = graph.ops()[i];
      if (training.phases[i] != phase || is_view(op)) continue;
      for (std::size_t at = 0; at < scratch[i]; at += 4)
        memory[{Placement::kTransient, plan.scratch[i] + at}] = -7;
      for (const ValueId output : op.outputs) {
        if (output == kNoValue || graph.value(output).kind != ValueKind::kActivation) continue;
        for_words(output, [&](ValueId& word) { word = memory_owner(graph, output); });
      }
      for (const ValueId input : op.inputs) {
        if (input == kNoValue || graph.value(input).kind == ValueKind::kParameter) continue;
        for_words(input, [&](const ValueId& word) {
          EXPECT_EQ(word, memory_owner(graph, input)) << op.name << " reads " << graph.value(input).name;
        });
      }
    }
  }
}

TEST(MemoryPlan, NoValueIsOverwrittenBeforeItsLastUse) {
  const TrainingGraph training = differentiate(chain(), {});
  const std::vector<TensorType> types = training.graph.types(7);
  std::vector<std::size_t> scratch(training.graph.ops().size());
  for (std::size_t i = 0; i < scratch.size(); ++i) scratch[i] = 64 * (i % 5);
  for (const bool accumulates : {false, true}) {
    const MemoryPlan plan = plan_memory(training, types, scratch, accumulates);
    expect_no_value_is_overwritten(training, types, scratch, plan);
  }
}

TEST(MemoryPlan, WhatBackwardNeedsIsStashedAndTheRestShares) {
  const Graph graph = chain();
  const TrainingGraph training = differentiate(graph, {});
  const std::vector<TensorType> types = training.graph.types(64);
  const std::vector<std::size_t> scratch(training.graph.ops().size(), 0);
  const MemoryPlan plan = plan_memory(training, types, scratch, false);
  const auto placement = [&](const char* name) {
    return plan.places[static_cast<std::size_t>(training.graph.at(name))].placement;
  };
  EXPECT_EQ(placement("relu_0_out"), Placement::kStash);
  EXPECT_EQ(placement("dense_0_out"), Placement::kTransient);
  EXPECT_EQ(placement("dense_0.weight"), Placement::kState);
  EXPECT_EQ(placement("dense_0.weight.gradient"), Placement::kGradient);
  const MemoryPlan inference =
      plan_memory(graph, graph.types(64), std::vector<std::size_t>(graph.ops().size(), 0));
  EXPECT_EQ(inference.stash_bytes, 0U);
  EXPECT_LT(inference.transient_bytes, plan.stash_bytes + plan.transient_bytes);
  // Input, labels and ids stay; of the layers at most two neighbours are alive at once.
  const std::size_t inputs = align_up(64 * 16 * 4) + 2 * align_up(std::size_t{64} * 8);
  EXPECT_LE(inference.transient_bytes,
            inputs + 2 * align_up(64 * 64 * 4) + align_up(64 * 10 * 4) + kAlignment);
}

TEST(MemoryPlan, ViewsShareTheMemoryOfTheirInput) {
  GraphBuilder b;
  const ValueId x = b.input("input", {4, 2, 2});
  const ValueId flat = b.flatten("flat", b.dropout("drop", x, 0.5F));
  const Graph graph = b.finish(b.linear("dense", flat, 3));
  EXPECT_EQ(memory_owner(graph, graph.at("flat_out")), graph.at("input"));
  const MemoryPlan plan = plan_memory(graph, graph.types(2), std::vector<std::size_t>(graph.ops().size(), 0));
  EXPECT_EQ(plan.places[static_cast<std::size_t>(flat)].offset,
            plan.places[static_cast<std::size_t>(x)].offset);
}

}  // namespace
}  // namespace rookery
