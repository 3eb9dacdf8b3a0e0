#include "node/run/ring_groups.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <set>

#include "node/run/link_options.hpp"
#include "tests/node/run/planned_clusters.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<std::string> nodes_of(const std::vector<EndpointPeer>& peers) {
  std::vector<std::string> nodes;
  for (const EndpointPeer& peer : peers) nodes.push_back(peer.node);
  return nodes;
}

// What every node finds out from its own file and stage, put together, are the plan's rings.
RC_GTEST_PROP(RingGroups, AreThePlansRingsWhateverTheCuts, ()) {
  const TrainingTask task = *rc::gen::arbitrary<bool>() ? cnn_task() : tied_task();
  const std::vector<OpId> positions = cut_positions(task.graph);
  std::vector<std::vector<OpId>> begins(*rc::gen::inRange(2, 5), {0});
  for (std::vector<OpId>& cluster : begins) {
    for (const OpId position : positions) {
      if (*rc::gen::inRange(0, 3) == 0) cluster.push_back(position);
    }
  }
  const Planned planned = planned_clusters(task, begins);
  const std::vector<Ring>& rings = planned.plan.rings;
  std::vector<int> seen(rings.size(), 0);
  for (std::size_t c = 0; c < begins.size(); ++c) {
    for (std::size_t s = 0; s < begins[c].size(); ++s) {
      const NodeMetadata metadata = make_metadata(task, planned, static_cast<int>(c), static_cast<int>(s));
      const std::vector<EndpointPeer> peers = endpoint_peers(metadata);
      std::set<GroupId> numbers{kPipelineGroup, roots_group(metadata)};
      int before = -1;
      for (const NodeRing& own : rings_of(metadata, planned.stages[c][s])) {
        RC_ASSERT(own.id > std::exchange(before, own.id));
        const Ring& ring = rings.at(own.id);
        ++seen[own.id];
        RC_ASSERT(own.parameters == ring.parameters);
        const GroupOptions options = ring_options({.name = metadata.node}, metadata, own);
        RC_ASSERT(numbers.insert(options.group).second);
        for (std::size_t other = 0; other < begins.size(); ++other) {
          const std::string& node = planned.plan.clusters[other].stages[ring.stages[other]].node;
          RC_ASSERT(own.members[other].node == node);
          RC_ASSERT(options.members[other] == node);
        }
        for (const std::size_t next : {c + 1, c + begins.size() - 1}) {
          RC_ASSERT(std::ranges::find(peers, own.members[next % begins.size()].node, &EndpointPeer::node) !=
                    peers.end());
        }
      }
      const std::vector<std::string> names = nodes_of(peers);
      RC_ASSERT(std::set<std::string>(names.begin(), names.end()).size() == names.size());
    }
  }
  for (const int nodes : seen) RC_ASSERT(nodes == std::ssize(begins));
}

class FourClusters : public testing::Test {
 protected:
  static Planned make(const TrainingTask& task) {
    Planned planned = planned_clusters(task, {{0, 4, 12}, {0, 6}, {0}, {0}});
    planned.plan.clusters[3].stages[0].reachable = false;  // node_6
    return planned;
  }
  NodeMetadata metadata(int cluster, int stage) const {
    return make_metadata(task_, planned_, cluster, stage);
  }

  const TrainingTask task_ = cnn_task();
  const Planned planned_ = make(task_);
};

// Nodes 0, 1, 2 | 3, 4 | 5 | 6.
TEST_F(FourClusters, EachConnectsWithItsStagesAndTheClustersBesideItsOwn) {
  EXPECT_THAT(nodes_of(endpoint_peers(metadata(0, 0))),
              UnorderedElementsAre("node_1", "node_2", "node_3", "node_6"));
  EXPECT_THAT(nodes_of(endpoint_peers(metadata(0, 2))),
              UnorderedElementsAre("node_0", "node_1", "node_4", "node_6"));
  EXPECT_THAT(nodes_of(endpoint_peers(metadata(1, 1))),
              UnorderedElementsAre("node_3", "node_1", "node_2", "node_5"));
  EXPECT_THAT(nodes_of(endpoint_peers(metadata(2, 0))), UnorderedElementsAre("node_3", "node_4", "node_6"));
  const std::vector<EndpointPeer> peers = endpoint_peers(metadata(2, 0));
  for (const EndpointPeer& peer : peers) EXPECT_EQ(peer.reachable, peer.node != "node_6");
}

TEST_F(FourClusters, RootsHaveARingOfTheirOwn) {
  const auto root = metadata(1, 0);
  const auto roots = roots_options({.name = "node_3"}, root);
  ASSERT_TRUE(roots);
  EXPECT_THAT(roots->members, ElementsAre("node_0", "node_3", "node_5", "node_6"));
  EXPECT_EQ(roots->topology, Topology::kRing);
  EXPECT_EQ(roots->group, 1 + planned_.plan.rings.size());
  EXPECT_FALSE(roots_options({.name = "node_4"}, metadata(1, 1)));
}

// Whoever is first in a round waits for the slowest, which has a whole epoch to go.
TEST_F(FourClusters, RingsAreWaitedForAsLongAsARoundMayTake) {
  NodeMetadata slow = metadata(2, 0);
  slow.predicted_step_ms = 60'000;
  const NodeRing ring = rings_of(slow, planned_.stages[2][0]).front();
  EXPECT_EQ(ring_options({}, slow, ring).deadline, std::chrono::minutes(10 + 10));
  slow.settings.averaging.mode = "parameters";
  slow.settings.averaging.every = 50;
  EXPECT_EQ(ring_options({}, slow, ring).deadline, std::chrono::minutes(10 + 500));
  slow.settings.averaging.every.reset();
  EXPECT_EQ(roots_options({}, slow)->deadline,
            std::chrono::minutes(10 + 10 * batches_per_epoch(slow.shares.joint(), slow.data.train_samples)));
  slow.settings.averaging.every = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(longest_wait(slow), std::chrono::minutes(10) + std::chrono::days(365));
}

TEST_F(FourClusters, AStageOfAnotherPlanIsNoticed) {
  EXPECT_THAT(error_of([&] { rings_of(metadata(0, 1), planned_.stages[0][2]); }),
              AllOf(HasSubstr("node_1: its first parameter '"), HasSubstr("is in none of its rings"),
                    HasSubstr("run clusterize again")));
  NodeMetadata metadata_of_5 = metadata(2, 0);
  metadata_of_5.rings[9] = {.first_parameter = "elsewhere", .peers = metadata_of_5.roots};
  EXPECT_THAT(error_of([&] { rings_of(metadata_of_5, planned_.stages[2][0]); }),
              HasSubstr("its ring 9 begins with 'elsewhere', which its stage does not own"));
}

TEST(RingGroups, OneClusterHasNone) {
  const TrainingTask task = cnn_task();
  const Planned planned = planned_clusters(task, {{0, cut_positions(task.graph)[1]}});
  const NodeMetadata metadata = make_metadata(task, planned, 0, 0);
  EXPECT_THAT(rings_of(metadata, planned.stages[0][0]), IsEmpty());
  EXPECT_FALSE(roots_options({}, metadata));
  EXPECT_THAT(nodes_of(endpoint_peers(metadata)), ElementsAre("node_1"));
}

}  // namespace
}  // namespace rookery
