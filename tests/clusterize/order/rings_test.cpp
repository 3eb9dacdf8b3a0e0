#include "clusterize/order/rings.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "tests/clusterize/plan_support.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;

// The graph of `task` cut at each of these positions among those where it may be.
std::vector<Stage> cut_at(const TrainingTask& task, std::initializer_list<std::size_t> positions) {
  std::vector<OpId> begins{0};
  for (const std::size_t at : positions) begins.push_back(cut_positions(task.graph)[at]);
  return cut(task.graph, begins);
}

// In the order in which ops first use them.
std::vector<ValueId> used_values(const Graph& graph) {
  const std::vector<ValueId> averaged = averaged_values(graph);
  std::vector<ValueId> used;
  for (const Op& op : graph.ops()) {
    for (const ValueId input : op.inputs) {
      const bool is_new = std::ranges::find(used, input) == used.end();
      if (is_new && std::ranges::find(averaged, input) != averaged.end()) used.push_back(input);
    }
  }
  return used;
}

std::vector<std::string> names_of(const TrainingTask& task) {
  std::vector<std::string> names;
  for (const ValueId id : used_values(task.graph)) names.push_back(task.graph.value(id).name);
  return names;
}

TEST(Rings, OfOneClusterAreItsStages) {
  const TrainingTask task = cnn_task();
  const std::vector<Stage> stages = cut_at(task, {cut_positions(task.graph).size() / 2});
  const std::vector<Ring> rings = make_rings({stages});
  ASSERT_EQ(rings.size(), 2U);
  for (int stage = 0; stage < 2; ++stage) {
    const Ring& ring = rings[stage];
    EXPECT_EQ(ring.id, stage);
    EXPECT_THAT(ring.stages, ElementsAre(stage));
    EXPECT_EQ(ring.parameters.size(), stages[stage].owned_averaged_values().size());
  }
}

TEST(Rings, OfClustersThatAreNotCutAreOne) {
  const TrainingTask task = cnn_task();
  const std::vector<Ring> rings = make_rings({cut_at(task, {}), cut_at(task, {}), cut_at(task, {})});
  ASSERT_EQ(rings.size(), 1U);
  EXPECT_THAT(rings[0].stages, ElementsAre(0, 0, 0));
  EXPECT_EQ(rings[0].parameters, names_of(task));
  EXPECT_EQ(rings[0].bytes, (16426 + 2 * (16 + 32 + 256)) * 4);  // with running means and variances
}

// By the definition: of every averaged value the stage that owns it in each cluster, and a new ring wherever
// that changes.
RC_GTEST_PROP(Rings, AreTheLongestRunsThatLieTogetherInEveryCluster, ()) {
  const TrainingTask task = *rc::gen::arbitrary<bool>() ? cnn_task() : tied_task();
  const std::vector<OpId> positions = cut_positions(task.graph);
  std::vector<std::vector<Stage>> clusters;
  const int count = *rc::gen::inRange(1, 5);
  for (int c = 0; c < count; ++c) {
    std::vector<OpId> begins{0};
    for (const OpId position : positions) {
      if (*rc::gen::inRange(0, 3) == 0) begins.push_back(position);
    }
    clusters.push_back(cut(task.graph, begins));
  }
  std::vector<Ring> expected;
  RC_ASSERT(used_values(task.graph).size() == averaged_values(task.graph).size());
  for (const ValueId id : used_values(task.graph)) {
    const Value& value = task.graph.value(id);
    std::vector<int> stages;
    for (const std::vector<Stage>& cluster : clusters) {
      for (const Stage& stage : cluster) {
        for (const ValueId own : stage.owned_averaged_values()) {
          if (stage.graph.value(own).name == value.name) stages.push_back(stage.index);
        }
      }
    }
    RC_ASSERT(std::ssize(stages) == count);
    if (expected.empty() || expected.back().stages != stages)
      expected.push_back({.id = static_cast<int>(expected.size()), .stages = stages});
    expected.back().parameters.push_back(value.name);
    expected.back().bytes += static_cast<std::int64_t>(value.type.bytes());
  }
  const std::vector<Ring> rings = make_rings(clusters);
  RC_ASSERT(rings.size() == expected.size());
  std::set<std::vector<int>> nodes;
  for (const Ring& ring : rings) RC_ASSERT(nodes.insert(ring.stages).second);
  for (std::size_t i = 0; i < rings.size(); ++i) {
    RC_ASSERT(rings[i].id == expected[i].id);
    RC_ASSERT(rings[i].stages == expected[i].stages);
    RC_ASSERT(rings[i].parameters == expected[i].parameters);
    RC_ASSERT(rings[i].bytes == expected[i].bytes);
  }
}

}  // namespace
}  // namespace rookery
