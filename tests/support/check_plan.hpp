// Checks memory plans by running them on labels.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/graph/op_definition.hpp"
#include "models/graph/passes/memory/memory_plan.hpp"
#include "models/graph/passes/memory/updates_in_backward.hpp"

namespace rookery::test {

// Runs the ops in order on a memory of labels: whatever an op reads must still be what was written for that
// value, its scratch memory lies beside what it reads and writes, and it writes only over inputs that it may
// write over.
class LabelledRun {
 public:
  LabelledRun(const TrainingGraph& training, const std::vector<TensorType>& types,
              const std::vector<std::size_t>& scratch, const MemoryPlan& plan)
      : training_(training), graph_(training.graph), types_(types), scratch_(scratch), plan_(plan) {}

  void run(bool delays_weights) {
    for (const ValueId input : graph_.inputs()) {
      if (!is_received(input)) write(input);
    }
    run(Phase::kForward);
    for (const ValueId output : graph_.outputs()) expect_intact(output, "the stage's output");
    spoil_what_is_shared();
    for (const auto& [value, gradient] : training_.received_gradients) write(gradient);
    run(Phase::kBackwardInputs);
    for (const auto& [value, gradient] : training_.sent_gradients) expect_intact(gradient, "a sent gradient");
    if (delays_weights) spoil_what_is_shared();
    run(Phase::kBackwardWeights);
  }

 private:
  static constexpr int kScratch = -7;
  static constexpr int kOther = -8;

  // As another micro-batch does.
  void spoil_what_is_shared() {
    for (auto& [place, word] : memory_)
      if (!place.first) word = kOther;
  }

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
    for (const UpdateInBackward& update : updates_in_backward(training_)) {
      if (update.after == static_cast<OpId>(i)) expect_intact(update.gradient, "an update reads");
    }
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

inline std::vector<std::size_t> some_scratch(const Graph& graph) {
  std::vector<std::size_t> scratch(graph.ops().size());
  for (std::size_t i = 0; i < scratch.size(); ++i) scratch[i] = is_view(graph.ops()[i]) ? 0 : 64 * (i % 5);
  return scratch;
}

inline StepShape any_step_shape() {
  return {.accumulates = *rc::gen::arbitrary<bool>(), .delays_weights = *rc::gen::arbitrary<bool>()};
}

// Makes the plan for micro-batches of `size`, with some scratch memory, and checks it.
inline MemoryPlan check_plan(const TrainingGraph& training, std::int64_t size, StepShape step) {
  const std::vector<TensorType> types = training.graph.types(size);
  const std::vector<std::size_t> scratch = some_scratch(training.graph);
  MemoryPlan plan = plan_memory(training, types, scratch, step);
  LabelledRun(training, types, scratch, plan).run(step.delays_weights);
  EXPECT_LE(plan.live_bytes, plan.stash_bytes + plan.transient_bytes);
  return plan;
}

}  // namespace rookery::test
