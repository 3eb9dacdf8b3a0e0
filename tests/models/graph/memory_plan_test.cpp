#include "models/graph/memory_plan.hpp"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "models/graph/builder.hpp"
#include "models/graph/loss.hpp"
#include "models/graph/ops.hpp"
#include "models/graph/stage.hpp"
#include "tests/support/random_graph.hpp"

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

// Runs the ops in order on a memory of labels: whatever an op reads must still be what was written for that
// value, its scratch memory lies beside what it reads and writes, and it writes only over inputs that it may
// write over.
class LabelledRun {
 public:
  LabelledRun(const TrainingGraph& training, const std::vector<TensorType>& types,
              const std::vector<std::size_t>& scratch, const MemoryPlan& plan)
      : training_(training), graph_(training.graph), types_(types), scratch_(scratch), plan_(plan) {}

  void run() {
    for (const ValueId input : graph_.inputs()) {
      if (!is_received(input)) write(input);
    }
    run(Phase::kForward);
    for (const ValueId output : graph_.outputs()) expect_intact(output, "the stage's output");
    for (const auto& [value, gradient] : training_.received_gradients) write(gradient);
    run(Phase::kBackwardInputs);
    for (const auto& [value, gradient] : training_.sent_gradients) expect_intact(gradient, "a sent gradient");
    run(Phase::kBackwardWeights);
    for (const auto& [value, gradient] : training_.sent_gradients) expect_intact(gradient, "a sent gradient");
  }

 private:
  static constexpr int kScratch = -7;

  static std::size_t index(int id) { return static_cast<std::size_t>(id); }

  bool is_received(ValueId input) const {
    return std::ranges::any_of(training_.received_gradients,
                               [&](const auto& entry) { return entry.second == input; });
  }

  template <typename Action>
  void for_words(const WorkingPlace& place, std::size_t bytes, const Action& action) {
    ASSERT_LE(place.offset + bytes, place.in_slot ? plan_.stash_bytes : plan_.transient_bytes);
    for (std::size_t at = 0; at < bytes; at += 4) action(memory_[{place.in_slot, place.offset + at}]);
  }

  template <typename Action>
  void for_words(ValueId value, const Action& action) {
    const ValuePlace& place = plan_.places[index(value)];
    if (place.placement != Placement::kWorking) return;
    for_words(place.at, types_[index(value)].bytes(), action);
  }

  void write(ValueId value) {
    for_words(value, [&](int& word) { word = memory_owner(graph_, value); });
  }

  bool is_intact(ValueId value) {
    bool intact = true;
    for_words(value, [&](int word) { intact = intact && word == memory_owner(graph_, value); });
    return intact;
  }

  void expect_intact(ValueId value, const std::string& what) {
    EXPECT_TRUE(is_intact(value)) << what << ": " << graph_.value(value).name;
  }

  void run(Phase phase) {
    for (std::size_t i = 0; i < graph_.ops().size(); ++i) {
      if (training_.phases[i] == phase && !is_view(graph_.ops()[i])) run(i);
    }
  }

  void run(std::size_t i) {
    const Op& op = graph_.ops()[i];
    for_words(plan_.scratch[i], scratch_[i], [](int& word) { word = kScratch; });
    for (const ValueId input : op.inputs) {
      if (input != kNoValue) expect_intact(input, op.name + " reads");
    }
    for (const ValueId output : op.outputs) {
      if (output != kNoValue) write(output);
    }
    for_words(plan_.scratch[i], scratch_[i],
              [&](int word) { EXPECT_EQ(word, kScratch) << op.name << " writes over its scratch memory"; });
    const auto& may = op_definition(op.type).in_place;
    for (std::size_t k = 0; k < op.inputs.size(); ++k) {
      if (op.inputs[k] == kNoValue || is_intact(op.inputs[k])) continue;
      EXPECT_NE(std::ranges::find_if(may, [&](std::size_t j) { return op.inputs.at(j) == op.inputs[k]; }),
                may.end())
          << op.name << " writes over input " << k;
      EXPECT_EQ(plan_.places[index(op.inputs[k])].at.offset, plan_.places[index(op.outputs[0])].at.offset);
      EXPECT_EQ(graph_.value(memory_owner(graph_, op.inputs[k])).kind, ValueKind::kActivation);
    }
  }

  const TrainingGraph& training_;
  const Graph& graph_;
  const std::vector<TensorType>& types_;
  const std::vector<std::size_t>& scratch_;
  const MemoryPlan& plan_;
  std::map<std::pair<bool, std::size_t>, int> memory_;
};

std::vector<std::size_t> some_scratch(const Graph& graph) {
  std::vector<std::size_t> scratch(graph.ops().size());
  for (std::size_t i = 0; i < scratch.size(); ++i) scratch[i] = is_view(graph.ops()[i]) ? 0 : 64 * (i % 5);
  return scratch;
}

MemoryPlan check_plan(const TrainingGraph& training, std::int64_t size, bool accumulates) {
  const std::vector<TensorType> types = training.graph.types(size);
  const std::vector<std::size_t> scratch = some_scratch(training.graph);
  MemoryPlan plan = plan_memory(training, types, scratch, accumulates);
  LabelledRun(training, types, scratch, plan).run();
  EXPECT_LE(plan.live_bytes, plan.stash_bytes + plan.transient_bytes);
  return plan;
}

TEST(MemoryPlan, NoValueIsOverwrittenBeforeItsLastUse) {
  const TrainingGraph training = differentiate(chain(), {});
  for (const bool accumulates : {false, true}) check_plan(training, 7, accumulates);
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
    check_plan(training, 3, *rc::gen::arbitrary<bool>());
  }
  RC_ASSERT(!testing::Test::HasFailure());
}

TEST(MemoryPlan, WhatBackwardNeedsIsStashedAndTheRestShares) {
  const Graph graph = chain();
  const TrainingGraph training = differentiate(graph, {});
  const std::vector<TensorType> types = training.graph.types(64);
  const std::vector<std::size_t> scratch(training.graph.ops().size(), 0);
  const MemoryPlan plan = plan_memory(training, types, scratch, false);
  const auto place = [&](const char* name) {
    return plan.places[static_cast<std::size_t>(training.graph.at(name))];
  };
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
  EXPECT_EQ(plan.places[static_cast<std::size_t>(flat)].at.offset,
            plan.places[static_cast<std::size_t>(x)].at.offset);
}

TEST(MemoryPlan, WhatIsStillReadIsNotWrittenOver) {
  GraphBuilder b;
  const ValueId x = b.linear("dense", b.input("input", {8}), 8);
  const ValueId early = b.relu("early", x);
  const ValueId late = b.relu("late", x);
  const ValueId sum = b.add("sum", early, late);
  const Graph graph = b.finish(sum);
  const MemoryPlan plan = plan_memory(graph, graph.types(2), std::vector<std::size_t>(graph.ops().size(), 0));
  const auto offset = [&](ValueId id) { return plan.places[static_cast<std::size_t>(id)].at.offset; };
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

// The feed-forward halves and gates of a transformer on [batch, 256]: wide and narrow layers, residual sums.
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
  for (const auto& [name, graph] : graphs) {
    const TrainingGraph training = in_one_backward_phase(differentiate(graph, {}));
    for (const std::int64_t size : {1, 8, 64}) {
      std::vector<std::size_t> scratch(training.graph.ops().size(), 0);
      const MemoryPlan plan = plan_memory(training, training.graph.types(size), scratch, false);
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
