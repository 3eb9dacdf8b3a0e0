#include "models/graph/passes/memory/memory_plan.hpp"
#include "models/graph/passes/differentiate.hpp"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "models/graph/op_definition.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/stage.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/support/random_graph.hpp"

namespace rookery {
namespace {

using test::check_plan;

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

TEST(MemoryPlan, NoValueIsOverwrittenBeforeItsLastUse) {
  const TrainingGraph training = differentiate(chain(), {});
  for (const bool accumulates : {false, true}) {
    for (const bool delays_weights : {false, true})
      check_plan(training, 7, {.accumulates = accumulates, .delays_weights = delays_weights});
  }
}

RC_GTEST_PROP(MemoryPlan, NoValueOfARandomGraphIsOverwrittenBeforeItsLastUse, ()) {
  const auto seed = *rc::gen::arbitrary<unsigned>();
  const Graph graph = test::RandomGraph::make(seed, *rc::gen::inRange(1, 30));
  const std::vector<OpId> positions = cut_positions(graph);
  std::vector<OpId> begins{0};
  for (const OpId position : positions) {
    if (*rc::gen::inRange(0, 6) == 0) begins.push_back(position);
  }
  for (const Stage& stage : cut(graph, begins)) {
    TrainingGraph training = differentiate(stage.graph, stage.gradient_request());
    if (*rc::gen::arbitrary<bool>()) training = in_one_backward_phase(std::move(training));
    StepShape step = test::any_step_shape();
    if (*rc::gen::arbitrary<bool>()) {
      step.accumulates = false;
      for (const auto& [parameter, uses] : training.parameter_gradients) {
        if (uses.size() == 1 && *rc::gen::arbitrary<bool>()) training.updated_in_backward.insert(parameter);
      }
    }
    check_plan(training, 3, step);
  }
  RC_ASSERT(!testing::Test::HasFailure());
}

TEST(MemoryPlan, WhatBackwardNeedsIsStashedAndTheRestShares) {
  const Graph graph = chain();
  const TrainingGraph training = differentiate(graph, {});
  const std::vector<TensorType> types = training.graph.types(64);
  const std::vector<std::size_t> scratch(training.graph.ops().size(), 0);
  const MemoryPlan plan = plan_memory(training, types, scratch, {});
  const auto place = [&](const char* name) { return plan.places[training.graph.at(name)]; };
  EXPECT_TRUE(place("relu_0_out").at.in_slot);
  EXPECT_EQ(place("dense_0_out").at.offset, place("relu_0_out").at.offset) << "in place";
  EXPECT_EQ(place("dense_0.weight").placement, Placement::kState);
  EXPECT_EQ(place("dense_0.weight.gradient").placement, Placement::kGradient);
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
  EXPECT_EQ(plan.places[flat].at.offset, plan.places[x].at.offset);
}

TEST(MemoryPlan, WhatIsStillReadIsNotWrittenOver) {
  GraphBuilder b;
  const ValueId x = b.linear("dense", b.input("input", {8}), 8);
  const ValueId early = b.relu("early", x);
  const ValueId late = b.relu("late", x);
  const ValueId sum = b.add("sum", early, late);
  const Graph graph = b.finish(sum);
  const MemoryPlan plan = plan_memory(graph, graph.types(2), std::vector<std::size_t>(graph.ops().size(), 0));
  const auto offset = [&](ValueId id) { return plan.places[id].at.offset; };
  EXPECT_NE(offset(early), offset(x));
  EXPECT_EQ(offset(late), offset(x));
  EXPECT_EQ(offset(sum), offset(early));
}

// Bottlenecks of ResNet's first two stages (arXiv 1512.03385), on 64 x 64 images.
Graph residual_network() {
  GraphBuilder b;
  int layer = 0;
  const auto conv_norm = [&](ValueId x, std::int64_t channels, std::int64_t kernel, std::int64_t stride) {
    const std::string name = "conv_" + std::to_string(layer++);
    return b.batch_norm(name + "_norm",
                        b.conv2d(name, x, channels, {.kernel = kernel, .stride = stride, .bias = false}));
  };
  const auto relu = [&](ValueId x) { return b.relu("relu_" + std::to_string(layer++), x); };
  ValueId x = relu(conv_norm(b.input("input", {3, 64, 64}), 64, 7, 2));
  x = b.max_pool2d("pool", x, 2, 2);
  for (const std::int64_t width : {64, 128}) {
    for (int block = 0; block < 3; ++block) {
      const std::int64_t stride = block == 0 && width > 64 ? 2 : 1;
      ValueId branch = relu(conv_norm(x, width, 1, 1));
      branch = conv_norm(relu(conv_norm(branch, width, 3, stride)), 4 * width, 1, 1);
      if (block == 0) x = conv_norm(x, 4 * width, 1, stride);
      x = relu(b.add("sum_" + std::to_string(layer++), branch, x));
    }
  }
  Graph graph = b.finish(b.linear("last", b.flatten("flat", x), 10));
  add_loss(graph, "cross_entropy");
  return graph;
}

// The feed-forward halves and gates of a transformer on [batch, 256]: wide and narrow layers, residual
// sums.
Graph feed_forward_network() {
  GraphBuilder b;
  ValueId x = b.linear("embed", b.input("input", {256}), 256);
  for (int i = 0; i < 8; ++i) {
    const auto name = [&](const char* part) { return part + std::to_string(i); };
    const ValueId norm = b.batch_norm(name("norm_"), x);
    const ValueId gate = b.softmax(name("gate_"), b.linear(name("query_"), norm, 256));
    const ValueId attended = b.mul(name("attend_"), gate, b.linear(name("value_"), norm, 256));
    x = b.add(name("sum_"), x, b.dropout(name("drop_"), b.linear(name("out_"), attended, 256), 0.1F));
    ValueId wide = b.linear(name("up_"), b.batch_norm(name("second_norm_"), x), 1024);
    wide = b.dropout(name("second_drop_"), b.linear(name("down_"), b.gelu(name("gelu_"), wide), 256), 0.1F);
    x = b.add(name("second_sum_"), x, wide);
  }
  Graph graph = b.finish(b.linear("last", x, 10));
  add_loss(graph, "cross_entropy");
  return graph;
}

TEST(MemoryPlan, ComesCloseToWhatIsAlive) {
  const std::map<std::string, Graph> graphs{{"residual", residual_network()},
                                            {"feed-forward", feed_forward_network()}};
  for (const auto& [title, graph] : graphs) {
    const std::string& name = title;  // which the lambda may capture
    const TrainingGraph training = in_one_backward_phase(differentiate(graph, {}));
    for (const std::int64_t size : {1, 8, 64}) {
      std::vector<std::size_t> scratch(training.graph.ops().size(), 0);
      const MemoryPlan plan = plan_memory(training, training.graph.types(size), scratch, {});
      const MemoryPlan forward = plan_memory(graph, graph.types(size), scratch);
      const auto report = [&](const char* mode, const MemoryPlan& found) {
        const std::size_t planned = found.stash_bytes + found.transient_bytes;
        const double ratio = static_cast<double>(planned) / static_cast<double>(found.live_bytes);
        printf("%-13s %-9s batch %2d: planned %9zu (stash %9zu), alive %9zu, ratio %.4f\n", name.c_str(),
               mode, static_cast<int>(size), planned, found.stash_bytes, found.live_bytes, ratio);
        EXPECT_LE(ratio, 1.05) << name << " " << mode << " " << size;
      };
      report("training", plan);
      report("inference", forward);
    }
  }
}

}  // namespace
}  // namespace rookery
