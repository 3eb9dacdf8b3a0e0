// Which nodes of neighbouring clusters have to connect.
#include <gtest/gtest.h>

#include "clusterize/costs/throughput_model.hpp"
#include "models/graph/passes/freeze.hpp"
#include "tests/clusterize/chain_model.hpp"

namespace rookery {
namespace {

// Clusters {0, 1} and {2, 3} of a model whose first segment has no parameters, cut before these segments.
bool connect(std::initializer_list<int> unreachable, int second_of_a, int second_of_b) {
  Json document = equal_nodes(4);
  for (const int node : unreachable) document[std::to_string(node)]["reachable"] = false;
  const NodePool pool = pool_of(document);
  ModelCosts costs = chain(4);
  costs.segments.front().parameters = costs.segments.front().parameter_bytes = 0;
  const ThroughputModel model(pool, costs);
  const Clusters clusters{{0, 1}, {2, 3}};
  const std::vector<PlacedCluster> placed = model.placed(clusters);
  return model.rings_connect(placed[0], *model.cut(clusters[0], {0, second_of_a}), placed[1],
                             *model.cut(clusters[1], {0, second_of_b}));
}

TEST(RingsConnect, NodesThatAverageAParameterDo) {
  EXPECT_TRUE(connect({}, 2, 2));
  EXPECT_TRUE(connect({1}, 2, 2));
  EXPECT_FALSE(connect({1, 3}, 2, 2));
  EXPECT_FALSE(connect({1, 2}, 2, 3)) << "segment 2";
  EXPECT_TRUE(connect({1, 2}, 2, 2)) << "no segment in common";
  EXPECT_TRUE(connect({1, 2}, 2, 1));
}

// Two nodes that others cannot reach have one segment in common, which has no parameters.
TEST(RingsConnect, NodesThatAverageOnlyBuffersDo) {
  Json document = equal_nodes(6);
  for (const char* node : {"1", "4"}) document[node]["reachable"] = false;
  const NodePool pool = pool_of(document);
  for (const int buffers : {0, 64}) {
    ModelCosts costs = chain(5);
    costs.segments[2].parameters = costs.segments[2].parameter_bytes = 0;
    costs.segments[2].averaged_buffers = buffers;
    const ThroughputModel model(pool, costs);
    const Clusters clusters{{0, 1, 2}, {3, 4, 5}};
    const std::vector<PlacedCluster> placed = model.placed(clusters);
    EXPECT_EQ(model.rings_connect(placed[0], *model.cut(clusters[0], {0, 1, 3}), placed[1],
                                  *model.cut(clusters[1], {0, 2, 4})),
              buffers == 0);
  }
}

TEST(RingsConnect, AllThatClustersAverageIsCountedInSomeSegment) {
  TrainingTask task = cnn_task();
  choose_trained(task.graph, {"*"}, {"dense_2.*"}, {});
  std::int64_t averaged = 0;
  for (const ValueId id : averaged_values(task.graph)) {
    averaged += task.graph.value(id).type.shape.elements();
  }
  for (const int most_segments : {kMostSegments, 3}) {
    const ModelCosts costs =
        model_costs(task.graph, task.settings, task.data, task.kernels, nullptr, most_segments);
    EXPECT_EQ(PartitionSums(costs).averaged.back(), static_cast<double>(averaged));
  }
}

// They tell each other how many samples their clusters have trained, with parameters or without.
TEST(RingsConnect, RootsDo) {
  EXPECT_FALSE(connect({0, 2}, 2, 2));
  EXPECT_FALSE(connect({0, 2}, 1, 1)) << "neither has a parameter";
  EXPECT_FALSE(connect({0, 2}, 1, 3));
  EXPECT_TRUE(connect({0}, 1, 1));
  EXPECT_TRUE(connect({0, 3}, 1, 1));
}

}  // namespace
}  // namespace rookery
