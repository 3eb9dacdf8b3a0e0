// Why nodes are left out: every reason, with its numbers.
#include "clusterize/planner/left_out.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include "clusterize/search/find_clusters.hpp"
#include "tests/clusterize/chain_model.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SearchOptions for_one_cluster() {
  return {.objective = Objective::kThroughput, .min_nodes = 1, .clusters = 1};
}

// Of the clusters and nodes named, whatever a search would do with them.
std::vector<std::string> reasons(const Json& document, const ModelCosts& costs, const SearchOptions& options,
                                 const Clusters& clusters, const std::vector<int>& left_out) {
  const NodePool pool = pool_of(document);
  const ThroughputModel model(pool, costs);
  return reasons_to_leave_out(model, options, clusters, model.throughput(clusters), left_out);
}

TEST(LeftOut, NobodyNeedsNoReason) {
  EXPECT_TRUE(reasons(fast_pool(2, 1, 1000), chain(2), for_throughput(), {{0, 1}}, {}).empty());
}

TEST(LeftOut, AMachineTooSmallForAnyPiece) {
  Json pool = fast_pool(2, 1, 1000);
  pool["1"]["benchmarks"]["ram"] = 0.05;  // a segment takes a tenth
  EXPECT_THAT(
      reasons(pool, chain(2), for_throughput(), {{0}}, {1}),
      ElementsAre("its memory (50 MB) is too small for any piece of the model: the smallest needs 100 MB"));
}

// Two segments on two nodes: nothing is left for a third.
TEST(LeftOut, APlaceThatNoCutGives) {
  EXPECT_THAT(reasons(fast_pool(3, 1, 1000), chain(2), for_one_cluster(), {{0, 1}}, {2}),
              ElementsAre("no cut of the model that gives this node a part fits the memory of every node"));
}

// 60 ms of work on one machine. On two, 30 ms each and twice 11 ms for 10 kB at 10 MB/s and 10 ms: 82 ms.
TEST(LeftOut, AStageThatWouldSlowTheOthersDown) {
  EXPECT_THAT(
      reasons(fast_pool(2, 10, 80), chain(2), for_one_cluster(), {{0}}, {1}),
      ElementsAre("at best, as stage 0 of cluster 0, 26.8% fewer samples per second (82 ms a step instead "
                  "of 60 ms); a micro-batch would take 30 ms of work on it and 22 ms on its links"));
}

// In the middle it has two links.
TEST(LeftOut, AStageInTheMiddleHasTwoLinks) {
  Json pool = fast_pool(3, 10, 80);
  for (const char* other : {"0", "1"}) {
    pool["network"]["links"].push_back(
        {{"between", {other, "2"}}, {"latency_ms", 1}, {"bandwidth_mbps", 80}});
  }
  // 3 x 30 ms, and 2 x 2 ms on each link of node 2; without it 30 + 60 ms and 22 ms.
  EXPECT_THAT(reasons(pool, chain(3), for_one_cluster(), {{0, 1}}, {2}),
              ElementsAre(testing::StartsWith("as stage 1 of cluster 0 it would train")));
  pool["2"]["benchmarks"]["gflops"] = 50;  // 60 ms
  EXPECT_THAT(
      reasons(pool, chain(3), for_one_cluster(), {{0, 1}}, {2}),
      ElementsAre("at best, as stage 1 of cluster 0, 12.5% fewer samples per second (128 ms a step instead "
                  "of 112 ms); a micro-batch would take 60 ms of work on it and 8 ms on its links"));
}

// 60 ms a step for 32 samples; two clusters do 64, in 60 ms and 2 x (200 ms + 4 kB at 10 MB/s).
TEST(LeftOut, AClusterOfItsOwnThatWouldBeAveragedTooSlowly) {
  EXPECT_THAT(
      reasons(fast_pool(2, 200, 80), chain(2), for_throughput(), {{0}}, {1}),
      ElementsAre("at best, as a cluster of its own, 74% fewer samples per second (461 ms a step instead "
                  "of 60 ms); averaging would take 401 ms"));
}

TEST(LeftOut, WhatTheSearchDidNotFindOrDidNotLookFor) {
  const Json pool = fast_pool(2, 0, 100'000);
  EXPECT_THAT(
      reasons(pool, chain(2), for_throughput(), {{0}}, {1}),
      ElementsAre("as a cluster of its own it would train 100% more samples per second, which the search did "
                  "not find"));
  EXPECT_THAT(
      reasons(pool, chain(2), {.objective = Objective::kSimilar, .min_nodes = 1}, {{0}}, {1}),
      ElementsAre(
          "as a cluster of its own it would train 100% more samples per second, which is not what the "
          "objective similar looks for"));
}

TEST(LeftOut, OfVeryManyKindsSomeAreNotExamined) {
  constexpr int kNodes = 36;
  Json pool = fast_pool(kNodes, 1, 1000);
  for (int i = 1; i < kNodes; ++i) pool[std::to_string(i)]["benchmarks"]["gflops"] = 100 + i;
  std::vector<int> left_out;
  for (int i = 1; i < kNodes; ++i) left_out.push_back(i);
  const std::vector<std::string> all = reasons(pool, chain(2), for_one_cluster(), {{0}}, left_out);
  ASSERT_EQ(all.size(), left_out.size());
  const std::string none = "not examined, because more than 32 kinds of nodes are left out";
  EXPECT_EQ(std::ranges::count(all, none), kNodes - 1 - 32);
  EXPECT_NE(all.front(), none);
}

// Nodes of a class have one reason, however many there are.
TEST(LeftOut, EqualNodesHaveEqualReasons) {
  const std::vector<std::string> all =
      reasons(fast_pool(60, 10, 80), chain(2), for_one_cluster(), {{0}}, std::vector<int>{3, 40, 59});
  EXPECT_EQ(all, std::vector<std::string>(3, all.front()));
  EXPECT_THAT(all.front(), HasSubstr("26.8% fewer"));
}

// A node that only opens connections, beside one that does.
TEST(LeftOut, ANodeThatOthersCannotReach) {
  Json pool = fast_pool(3, 0, 100'000);
  for (const char* id : {"1", "2"}) pool[id]["reachable"] = false;
  // 30 ms on each of three, and 10 kB to pass on at 12.5 GB/s, to a third and back.
  const SearchOptions similar{.objective = Objective::kSimilar, .min_nodes = 3};
  EXPECT_THAT(
      reasons(pool, chain(3), similar, {{0, 1}}, {2}),
      ElementsAre(
          "others cannot reach it, nor node_1, and of two nodes that connect one has to be reachable; "
          "reached by others it would bring 0.0016% fewer samples per second as stage 0 of cluster 0: "
          "forward "
          "a port to it and take \"reachable\": false out of node_configs.json"));
  // 90 ms on one, a third of the model on each of three: as a cluster of its own it doubles what is trained.
  EXPECT_THAT(
      reasons(pool, chain(3), for_throughput(), {{1}}, {2}),
      ElementsAre(
          "others cannot reach it, nor node_1, and of two nodes that connect one has to be reachable; "
          "reached by others it would bring 100% more samples per second as a cluster of its own: "
          "forward a port to it and take \"reachable\": false out of node_configs.json"));
}

TEST(LeftOut, ANodeThatWouldBeSlowEvenIfOthersReachedIt) {
  Json pool = fast_pool(2, 10, 80);
  for (const char* id : {"0", "1"}) pool[id]["reachable"] = false;
  EXPECT_THAT(
      reasons(pool, chain(2), for_one_cluster(), {{0}}, {1}),
      ElementsAre(
          "others cannot reach it, nor node_0, and of two nodes that connect one has to be reachable; "
          "even reached by others it would bring 26.8% fewer samples per second as stage 0 of cluster "
          "0"));
}

// Alone in its kind it connects to everybody, so that this is no reason.
TEST(LeftOut, ASingleNodeThatOthersCannotReachIsAsAnyOther) {
  Json pool = fast_pool(2, 10, 80);
  pool["1"]["reachable"] = false;
  EXPECT_THAT(reasons(pool, chain(2), for_one_cluster(), {{0}}, {1}),
              ElementsAre(testing::StartsWith("at best, as stage 0 of cluster 0, 26.8% fewer")));
}

// As the planner writes it into a plan.
TEST(LeftOut, IsPartOfThePlan) {
  Json document = fast_pool(3, 0, 100'000);
  document["2"]["benchmarks"]["ram"] = 0.000001;
  const TrainingTask task = cnn_task();
  const Planned planned = make_plan(task, pool_of(document), for_throughput());
  ASSERT_EQ(planned.plan.left_out.size(), 1U);
  EXPECT_EQ(planned.plan.left_out[0].node, "node_2");
  EXPECT_THAT(planned.plan.left_out[0].reason,
              HasSubstr("its memory (0.001 MB) is too small for any piece of the model"));
}

Json random_small_pool(int nodes) {
  Json pool = fast_pool(nodes, *rc::gen::element(0.1, 5.0), 100);
  for (int i = 0; i < nodes; ++i) {
    Json& node = pool[std::to_string(i)];
    node["benchmarks"]["gflops"] = *rc::gen::element(20, 50, 100);
    node["benchmarks"]["ram"] = *rc::gen::element(0.15, 0.35, 8.0);
    if (*rc::gen::inRange(0, 3) == 0) node["reachable"] = false;
  }
  return pool;
}

// Every place in every cluster, and alone, by the throughput model alone.
RC_GTEST_PROP(BestPlace, IsThatOfBruteForce, ()) {
  const int nodes = *rc::gen::inRange(2, 7);
  const NodePool pool = pool_of(random_small_pool(nodes));
  const ModelCosts costs = chain(*rc::gen::inRange(1, 5));
  const ThroughputModel model(pool, costs);
  Clusters clusters;
  for (int node = 0; node + 1 < nodes; ++node) {
    if (clusters.empty() || *rc::gen::arbitrary<bool>()) clusters.emplace_back();
    clusters.back().push_back(node);
  }
  for (const std::vector<int>& members : clusters) {
    if (!model.cluster(members).fits()) RC_DISCARD("does not fit");
  }
  const int node = nodes - 1;
  double best = 0;
  const auto consider = [&](const Clusters& with) {
    for (const std::vector<int>& members : with) {
      if (!model.cluster(members).fits()) return;
    }
    best = std::max(best, model.throughput(with).samples_per_second);
  };
  for (std::size_t cluster = 0; cluster < clusters.size(); ++cluster) {
    for (std::size_t stage = 0; stage <= clusters[cluster].size(); ++stage) {
      Clusters with = clusters;
      with[cluster].insert(with[cluster].begin() + static_cast<std::ptrdiff_t>(stage), node);
      consider(with);
    }
  }
  Clusters alone = clusters;
  alone.push_back({node});
  if (alone.size() <= 3) {  // beyond, it may stand anywhere among the others
    consider(alone);
    const auto place = best_position(model, for_throughput(), clusters, node, 1000);
    RC_ASSERT(place.has_value() == (best > 0));
    if (place) RC_ASSERT(place->samples_per_second == best);
  }
  SearchOptions together = for_throughput();
  together.clusters = static_cast<int>(clusters.size());
  const auto place = best_position(model, together, clusters, node, 1000);
  RC_ASSERT(!place || place->cluster < std::ssize(clusters));
}

}  // namespace
}  // namespace rookery
