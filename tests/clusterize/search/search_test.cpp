#include "clusterize/search/find_clusters.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "clusterize/search/canonical.hpp"
#include "tests/clusterize/chain_model.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::vector<int>> clusters_of(const Json& pool_json, const ModelCosts& costs,
                                          const SearchOptions& options) {
  const NodePool pool = pool_of(pool_json);
  const ThroughputModel model(pool, costs);
  return find_clusters(model, options).clusters;
}

TEST(SimilarClusters, EqualNodesAreDealtInTheirOrderForEverySeed) {
  const ModelCosts costs = chain(8);
  const std::map<int, Clusters> expected{{1, {{0}}},
                                         {2, {{0, 1}}},
                                         {3, {{0, 1, 2}}},
                                         {4, {{0, 1, 2, 3}}},
                                         {5, {{0, 1, 2, 3, 4}}},
                                         {6, {{0, 1, 2}, {3, 4, 5}}},
                                         {7, {{0, 1, 2}, {3, 4, 5, 6}}},
                                         {9, {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}}}};
  for (const auto& [nodes, clusters] : expected) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed)
      EXPECT_EQ(clusters_of(equal_nodes(nodes), costs, {.seed = seed}), clusters)
          << nodes << " nodes, seed " << seed;
  }
}

// What a search without a limit would say is not known then.
TEST(SimilarClusters, TimeThatIsTooShortIsNamed) {
  SearchOptions options;
  options.seconds = 1e-9;
  const ModelCosts costs = chain(8, 100);  // more than all nodes hold
  EXPECT_THAT(error_of([&] { clusters_of(equal_nodes(9), costs, options); }), HasSubstr("--time-limit"));
}

TEST(SimilarClusters, MinNodesIsRespected) {
  EXPECT_EQ(clusters_of(equal_nodes(6), chain(8), {.min_nodes = 2}), (Clusters{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(clusters_of(equal_nodes(6), chain(8), {.min_nodes = 4}), (Clusters{{0, 1, 2, 3, 4, 5}}));
  EXPECT_EQ(clusters_of(equal_nodes(4), chain(2), {.min_nodes = 3}), (Clusters{{0, 1}, {2, 3}}));
}

// 50 GB over two clusters: 16 + 8 + 1 each.
TEST(SimilarClusters, AreAsEqualAsPossible) {
  Json pool = Json::object();
  const double ram[] = {16, 16, 1, 1, 8, 8};
  for (int i = 0; i < 6; ++i) pool[std::to_string(i)] = node_json(8080 + i, ram[i]);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    for (const std::vector<int>& members : clusters_of(pool, chain(8, 0.01), {.seed = seed})) {
      double sum = 0;
      for (const int node : members) sum += ram[node];
      EXPECT_EQ(sum, 25) << "seed " << seed;
    }
  }
}

// A node of 1 GB holds three segments of 0.3 GB or two of 0.45 GB, and there are eight.
TEST(SimilarClusters, MemoryComesBeforeTheNumberOfClusters) {
  EXPECT_EQ(clusters_of(equal_nodes(6, 1), chain(8, 0.1), {.min_nodes = 1}).size(), 6U);
  EXPECT_EQ(clusters_of(equal_nodes(6, 1), chain(8, 0.3), {.min_nodes = 1}).size(), 2U);
  EXPECT_EQ(clusters_of(equal_nodes(6, 1), chain(8, 0.45), {.min_nodes = 1}).size(), 1U);
}

TEST(Memory, AModelThatDoesNotFitIsToldInNumbers) {
  const std::string message =
      error_of([] { clusters_of(equal_nodes(3, 1), chain(8, 0.5), SearchOptions()); });
  EXPECT_EQ(
      message,
      "chain with batch_size 32 and micro_batches 1 does not fit the machines' memory: on one machine it "
      "takes "
      "4 GB, and its largest piece that cannot be cut 500 MB, with buffers for its links; the 3 machines "
      "together have 3 GB, the largest 1 GB; more or larger machines are needed");
}

TEST(ThroughputClusters, ASlowNetworkLeavesNodesOut) {
  const NodePool pool = pool_of(fast_pool(4, 10'000, 0.01));
  const ModelCosts costs = chain(4);
  ThroughputModel model(pool, costs);
  const Grouping found = find_clusters(model, {.objective = Objective::kThroughput, .min_nodes = 1});
  EXPECT_EQ(found.clusters, (Clusters{{0}}));
  EXPECT_THAT(found.left_out, ElementsAre(1, 2, 3));
}

TEST(ThroughputClusters, AFastNetworkUsesThemAll) {
  EXPECT_EQ(
      clusters_of(fast_pool(4, 0, 100000), chain(4), {.objective = Objective::kThroughput, .min_nodes = 1}),
      (Clusters{{0}, {1}, {2}, {3}}));
}

// No node holds the model alone, and the two regions are far apart.
TEST(ThroughputClusters, FormWithinRegions) {
  Json pool = fast_pool(4, 0, 1000);
  for (const auto& [id, region] :
       std::map<std::string, std::string>{{"0", "A"}, {"1", "B"}, {"2", "A"}, {"3", "B"}}) {
    pool[id]["region"] = region;
    pool[id]["benchmarks"]["ram"] = 0.25;
  }
  pool["network"]["regions"] =
      Json::parse(R"([{"between": ["A", "B"], "latency_ms": 50, "bandwidth_mbps": 100}])");
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    EXPECT_EQ(
        clusters_of(pool, chain(4), {.objective = Objective::kThroughput, .min_nodes = 1, .seed = seed}),
        (Clusters{{0, 2}, {1, 3}}));
  }
}

// Machines of random kinds, memory that is tight.
Json random_tight_pool(int nodes) {
  Json pool = Json::object();
  for (int i = 0; i < nodes; ++i) {
    pool[std::to_string(i)] =
        node_json(8080 + i, *rc::gen::element(0.25, 0.5, 1.0), *rc::gen::element(10.0, 100.0));
    pool[std::to_string(i)]["benchmarks"]["gflops"] = *rc::gen::element(50, 100);
  }
  return pool;
}

RC_GTEST_PROP(FindClusters, UsesEveryNodeOnceWithinItsMemoryAndTheSameForAnyNumberOfThreads, ()) {
  const int nodes = *rc::gen::inRange(1, 8);
  const Json pool_json = random_tight_pool(nodes);
  const NodePool pool = pool_of(pool_json);
  const ModelCosts costs = chain(*rc::gen::inRange(1, 7));
  const SearchOptions options{.objective = *rc::gen::element(Objective::kSimilar, Objective::kThroughput),
                              .min_nodes = *rc::gen::inRange(1, 4),
                              .seed = *rc::gen::inRange<std::uint64_t>(0, 1000),
                              .threads = 3};
  const ThroughputModel model(pool, costs);
  Grouping found;
  try {
    found = find_clusters(model, options);
  } catch (const ConfigError&) {
    RC_DISCARD("does not fit");
  }
  const ThroughputModel again(pool, costs);
  SearchOptions one_thread = options;
  one_thread.threads = 1;
  RC_ASSERT(find_clusters(again, one_thread) == found);

  std::multiset<int> used(found.left_out.begin(), found.left_out.end());
  for (const std::vector<int>& members : found.clusters) {
    RC_ASSERT(!members.empty());
    used.insert(members.begin(), members.end());
    RC_ASSERT(model.cluster(members).fits());
    const std::vector<int>& begins = model.cluster(members).cuts.front().begins;
    for (std::size_t k = 0; k < members.size(); ++k) {
      const int end = k + 1 < members.size() ? begins[k + 1] : costs.count();
      RC_ASSERT(costs.memory->bytes({begins[k], end, 1}) <=
                static_cast<std::int64_t>(1e9 * pool.node(members[k]).ram_gb));
    }
  }
  RC_ASSERT(used.size() == static_cast<std::size_t>(nodes));
  RC_ASSERT(std::set<int>(used.begin(), used.end()).size() == used.size());
}

TEST(LatencyClusters, AreOneWithTheShortestStep) {
  Json pool = fast_pool(4, 1, 1000);
  pool["2"]["benchmarks"]["gflops"] = 300;
  EXPECT_EQ(clusters_of(pool, chain(4), {.objective = Objective::kLatency, .min_nodes = 1}), (Clusters{{2}}));
  for (auto& node : pool) {
    if (node.contains("benchmarks")) node["benchmarks"]["ram"] = 0.25;  // two of them hold the model
  }
  const Clusters found = clusters_of(pool, chain(4), {.objective = Objective::kLatency, .min_nodes = 1});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].size(), 2U);
  EXPECT_THAT(found[0], testing::Contains(2));
}

TEST(Constraints, AreMet) {
  const SearchOptions any{.objective = Objective::kThroughput, .min_nodes = 1};
  for (const int clusters : {1, 2, 3, 5}) {
    SearchOptions options = any;
    options.clusters = clusters;
    EXPECT_EQ(clusters_of(fast_pool(5, 1, 1000), chain(6), options).size(),
              static_cast<std::size_t>(clusters));
  }
  SearchOptions pinned = any;
  pinned.clusters = 2;
  pinned.pins = {{0, {.cluster = 1, .stage = 1}}, {3, {.cluster = 0, .stage = 0}}};
  const NodePool pool = pool_of(fast_pool(5, 1, 1000));
  const ModelCosts costs = chain(6);
  const ThroughputModel model(pool, costs, {0, 3});
  const Clusters found = find_clusters(model, pinned).clusters;
  ASSERT_EQ(found.size(), 2U);
  ASSERT_GE(found[1].size(), 2U);
  EXPECT_EQ(found[1][1], 0);
  EXPECT_EQ(found[0][0], 3);
}

TEST(Constraints, ThatCannotBeMetAreToldInNumbers) {
  const auto problem = [](SearchOptions options) {
    return error_of([&] { clusters_of(fast_pool(5, 1, 1000), chain(4), options); });
  };
  EXPECT_EQ(
      problem({.min_nodes = 2, .clusters = 3}),
      "3 clusters of at least 2 nodes need 6 nodes, there are 5: ask for at most 2 clusters, or for fewer "
      "nodes in each");
  EXPECT_THAT(problem({.min_nodes = 1, .pins = {{2, {.cluster = 0, .stage = 4}}}}),
              HasSubstr("node_2 is pinned to stage 4, but chain can be cut into 4 stages, 0 to 3"));
  EXPECT_THAT(problem({.min_nodes = 1, .pins = {{1, {0, 0}}, {2, {0, 0}}}}),
              HasSubstr("node_1 and node_2 are both pinned to stage 0 of cluster 0"));
  EXPECT_THAT(problem({.min_nodes = 1, .clusters = 1, .pins = {{1, {1, 0}}}}),
              HasSubstr("node_1 is pinned to cluster 1, but 1 cluster is asked for"));
  EXPECT_THAT(problem({.min_nodes = 3, .clusters = 2}), HasSubstr("ask for at most 1 cluster, or"));
}

// Half a gigabyte for each segment, sample and micro-batch in flight, and a tenth for each segment.
ModelCosts trained(const Training& training) {
  ModelCosts costs = chain(4);
  costs.batch_size = training.batch_size;
  costs.micro_batches = training.micro_batches;
  costs.may_recompute = training.recompute != "none";
  const double samples = static_cast<double>(training.batch_size) / training.micro_batches;
  costs.memory = memory_by([samples](const StageRange& range) {
    return static_cast<std::int64_t>((range.last - range.first) * 1e8 *
                                     (1 + (range.recompute ? 1 : 5) * samples * range.slots));
  });
  costs.trained = trained;
  return costs;
}

TEST(Remedies, AreThoseWithWhichThereIsAPlan) {
  const auto problem = [](const Training& training, double ram, SearchOptions options = {}) {
    const ModelCosts costs = trained(training);
    return error_of([&] { clusters_of(equal_nodes(4, ram), costs, options); });
  };
  // A segment on each node: 4.1 GB with 8 samples, 2.1 with 4, 0.9 recomputed; more micro-batches help only
  // beyond those that are in flight.
  EXPECT_THAT(problem({8, 1, "none"}, 3),
              HasSubstr("there is a plan with batch_size 4, or with micro_batches 8, or with recompute "
                        "\"auto\""));
  EXPECT_THAT(problem({8, 1, "none"}, 0.55),
              testing::EndsWith("there is a plan with batch_size 4 with recompute \"auto\""));
  EXPECT_THAT(problem({8, 1, "auto"}, 0.55), HasSubstr("there is a plan with batch_size 4"));
  EXPECT_THAT(problem({8, 1, "none"}, 0.15), testing::EndsWith("more or larger machines are needed"));
}

// A segment on each node with one sample: 2.1 GB on the first, which has four batches in flight; 1.1 with
// two.
TEST(Remedies, LessStalenessIsLessMemory) {
  const std::function<ModelCosts(const Training&)> asynchronous = [&](const Training& training) {
    ModelCosts costs = trained(training);
    costs.schedule = {.name = "async", .max_staleness = training.max_staleness};
    costs.trained = asynchronous;
    return costs;
  };
  const ModelCosts costs = asynchronous({1, 1, "none", std::nullopt});
  EXPECT_THAT(error_of([&] { clusters_of(equal_nodes(4, 1.2), costs, {}); }),
              HasSubstr("there is a plan with --max-staleness 1"));
}

// A segment with one sample, and half a gigabyte for each that is in flight.
TEST(Remedies, FewerInFlightOrAnotherScheduleAreLessMemory) {
  const std::function<ModelCosts(const Training&)> scheduled = [&](const Training& training) {
    ModelCosts costs = trained(training);
    costs.schedule = {.name = training.schedule, .in_flight = training.in_flight};
    costs.trained = scheduled;
    return costs;
  };
  const ModelCosts many = scheduled({8, 8, "none", std::nullopt, 8});
  EXPECT_THAT(error_of([&] { clusters_of(equal_nodes(4, 1.2), many, {}); }), HasSubstr("in_flight 2"));
  // 2.1 GB on every node, or on the first alone.
  const ModelCosts zero_bubble = scheduled({8, 8, "none", std::nullopt, std::nullopt, "zb"});
  Json pool = equal_nodes(4, 1.7);
  pool["0"]["benchmarks"]["ram"] = 2.2;
  EXPECT_THAT(error_of([&] { clusters_of(pool, zero_bubble, {}); }), HasSubstr("schedule \"1f1b\""));
}

TEST(Remedies, OfConstraintsAreThoseThatCanBeMet) {
  // Two nodes hold the model, one does not.
  const auto problem = [](SearchOptions options) {
    const ModelCosts costs = trained({1, 1, "none"});
    return error_of([&] { clusters_of(equal_nodes(5, 1.3), costs, options); });
  };
  EXPECT_THAT(problem({.min_nodes = 1, .clusters = 4}),
              AllOf(HasSubstr("without constraints 2 clusters are possible"),
                    HasSubstr("there is a plan with --clusters 2")));
  EXPECT_THAT(
      problem({.min_nodes = 1, .pins = {{0, {0, 2}}, {1, {1, 3}}}}),
      AllOf(HasSubstr("1 node in each cluster, 2 pinned nodes"), HasSubstr("there is a plan with no --pin")));
  EXPECT_THAT(problem({.min_nodes = 3, .pins = {{0, {0, 0}}, {1, {1, 0}}}}),
              HasSubstr("there is a plan with --min-nodes-per-cluster 2, or with no --pin"));
}

// All members of a cluster connect to each other: three nodes of which two cannot be reached are a cluster of
// two.
TEST(SimilarClusters, NodesThatCannotConnectAreInNoClusterTogether) {
  Json pool = equal_nodes(3);
  pool["0"]["reachable"] = pool["2"]["reachable"] = false;
  EXPECT_EQ(clusters_of(pool, chain(8), {}), (Clusters{{0, 1}}));
  pool["1"]["reachable"] = false;
  EXPECT_EQ(clusters_of(pool, chain(8), {}), (Clusters{{0}}));
  pool["1"]["reachable"] = pool["2"]["reachable"] = true;
  EXPECT_EQ(clusters_of(pool, chain(8), {}), (Clusters{{0, 1, 2}})) << "one reaches all";
}

// In a ring neighbours connect: of four clusters two have such a node, and stand apart.
TEST(SimilarClusters, ThatCannotConnectAreNoNeighboursInARing) {
  Json pool = fast_pool(4, 1, 1000);
  pool["0"]["reachable"] = pool["1"]["reachable"] = false;
  const Clusters found = clusters_of(pool, chain(8), {.min_nodes = 1});
  ASSERT_EQ(found.size(), 4U);
  for (std::size_t c = 0; c < 4; ++c) EXPECT_TRUE(found[c][0] > 1 || found[(c + 1) % 4][0] > 1);
  pool["2"]["reachable"] = false;
  EXPECT_EQ(clusters_of(pool, chain(8), {.min_nodes = 1}).size(), 2U)
      << "the other two would be between them";
}

TEST(Remedies, OfNodesThatCannotConnectAreForwardedPorts) {
  Json pool = equal_nodes(3, 0.35);  // three segments of eight
  pool["0"]["reachable"] = pool["2"]["reachable"] = false;
  EXPECT_THAT(
      error_of([&] { clusters_of(pool, chain(8), {}); }),
      AllOf(HasSubstr("; of node_0, node_2, that others cannot reach, one can be in a cluster"),
            testing::EndsWith("there is a plan with a port forwarded to each node that has \"reachable\": "
                              "false, and that taken out")));
}

TEST(Canonical, NodesThatOthersCannotReachAreAClassOfTheirOwn) {
  Json pool_json = equal_nodes(3);
  pool_json["1"]["reachable"] = false;
  const NodePool pool = pool_of(pool_json);
  const ModelCosts costs = chain(4);
  const ThroughputModel model(pool, costs);
  EXPECT_EQ(canonical(model, {.clusters = {{2, 1}}, .left_out = {0}}).clusters, (Clusters{{0, 1}}));
}

TEST(Canonical, EqualNodesTakeTheirPlacesInOrder) {
  const NodePool pool = pool_of(equal_nodes(6));
  const ModelCosts costs = chain(4);
  const ThroughputModel model(pool, costs);
  const Grouping grouping{.clusters = {{5, 1, 3}, {4, 0}}, .left_out = {2}};
  const Grouping expected{.clusters = {{0, 1}, {2, 3, 4}}, .left_out = {5}};
  EXPECT_EQ(canonical(model, grouping), expected);
}

TEST(Canonical, NodesThatDifferStayWhereTheyAre) {
  Json pool_json = equal_nodes(4);
  pool_json["2"]["benchmarks"]["ram"] = 9;
  pool_json["network"] =
      Json::parse(R"({"links": [{"between": ["1", "3"], "latency_ms": 9, "bandwidth_mbps": 5}]})");
  const NodePool pool = pool_of(pool_json);
  const ModelCosts costs = chain(4);
  const ThroughputModel model(pool, costs);
  const Grouping grouping{.clusters = {{3, 0}, {2, 1}}};
  const Grouping expected{.clusters = {{1, 0}, {2, 3}}};  // 1 and 3 are interchangeable, 0 and 2 are not
  EXPECT_EQ(canonical(model, grouping), expected);
}

TEST(ThroughputModel, AddsUpAsWritten) {
  const NodePool pool = pool_of(fast_pool(2, 10, 80));  // 10 ms, 10 MB/s
  ModelCosts costs = chain(2);
  ThroughputModel model(pool, costs);
  const double forward = 1e9 / 100e9;
  const double backward = 2e9 / 100e9;
  const double send = 0.010 + 1e4 / 10e6;
  const ClusterCost& cost = model.cluster({0, 1});
  ASSERT_TRUE(cost.fits());
  const std::vector<StageTimes> times = model.stage_times({0, 1}, cost.cuts.front());
  EXPECT_NEAR(times[0].forward, forward, 1e-12);
  EXPECT_NEAR(times[1].backward, backward, 1e-12);
  EXPECT_NEAR(times[0].send, send, 1e-12);
  EXPECT_NEAR(cost.cuts.front().step_seconds, 2 * (forward + backward) + 2 * send + 16 * 1000 / 100e9, 1e-9);
  // Two clusters of one node: one ring of both segments' 8000 bytes.
  EXPECT_NEAR(model.throughput({{0}, {1}}).averaging_seconds, 2 * (0.010 + 4000 / 10e6), 1e-9);
  EXPECT_EQ(model.throughput({{0, 1}}).averaging_seconds, 0);
  EXPECT_NEAR(model.bound_samples_per_second(), 32 * 200e9 / 6e9, 1e-6);
}

TEST(ThroughputModel, CountsWhatTheEndOfAStepExchanges) {
  Json json = equal_nodes(3);
  json["network"] = {{"default", {{"latency_ms", 7}, {"bandwidth_mbps", 8}}}};  // 1 MB/s
  const NodePool pool = pool_of(json);
  const auto step_seconds = [&](const ModelCosts& costs) {
    ThroughputModel model(pool, costs);
    return model.cluster({0, 1, 2}).cuts.front().step_seconds;
  };
  ModelCosts costs = chain(6);  // two segments a stage
  const double before = step_seconds(costs);
  costs.waits_for_norm = true;
  EXPECT_NEAR(step_seconds(costs) - before, 0.007, 1e-9);
  costs.waits_for_norm = false;
  costs.shared = {{.segments = {0, 1}, .bytes = 1e6}};
  EXPECT_NEAR(step_seconds(costs), before, 1e-9) << "both on one stage";
  costs.shared = {{.segments = {1, 5}, .bytes = 1e6}};
  EXPECT_NEAR(step_seconds(costs) - before, 2 * (1 + 0.007), 1e-9) << "past the stage between";
  costs.shared.push_back({.segments = {0, 2, 3, 4}, .bytes = 2e6});
  EXPECT_NEAR(step_seconds(costs) - before, 2 * 1 + 2 * (2 * 2 + 2 * 0.007), 1e-9) << "two hops, too";
}

}  // namespace
}  // namespace rookery
