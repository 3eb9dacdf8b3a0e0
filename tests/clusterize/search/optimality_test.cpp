// Is the search's answer the best there is? Small pools are compared with brute force.
#include <gtest/gtest.h>

#include <optional>

#include "clusterize/order/cut_refinement.hpp"
#include "clusterize/search/find_clusters.hpp"
#include "clusterize/search/throughput_bound.hpp"
#include "tests/clusterize/function_memory.hpp"
#include "tests/clusterize/plan_support.hpp"
#include "tests/clusterize/search/brute_force.hpp"

namespace rookery {
namespace {

// Models of three kinds, coarsely: convolutions (large activations in the front, parameters in the rear), a
// perceptron (alike throughout), and a language model whose embedding is shared with its last layer.
ModelCosts model_of_kind(int kind, int micro_batches) {
  ModelCosts costs{.name = "model", .batch_size = 64, .micro_batches = micro_batches};
  constexpr int kSegments = 6;
  for (int i = 0; i < kSegments; ++i) {
    const double front = 1.0 / (i + 1);
    const double flops = (kind == 0 ? 4e9 * front : 1e9) / micro_batches;
    const std::int64_t parameters = kind == 0   ? 20'000 << i
                                    : kind == 1 ? 500'000
                                                : (i == 0 ? 2'000'000 : 300'000);
    const double bytes = (kind == 0 ? 4e6 * front : kind == 1 ? 3e5 : 1e6) / micro_batches;
    costs.segments.push_back({.begin = i,
                              .work = {.forward_flops = flops,
                                       .backward_flops = 2 * flops,
                                       .update_flops = 16.0 * static_cast<double>(parameters)},
                              .parameters = parameters,
                              .parameter_bytes = 4 * parameters,
                              .activation_bytes = i == 0 ? 0 : bytes,
                              .gradient_bytes = i == 0 ? 0 : bytes});
  }
  if (kind == 2) costs.shared = {{.segments = {0, kSegments - 1}, .bytes = 8e6}};
  costs.memory = memory_by([segments = costs.segments](const StageRange& range) {
    std::int64_t bytes = 0;
    for (int i = range.first; i < range.last; ++i) {
      const Segment& segment = segments[i];
      bytes +=
          4 * segment.parameter_bytes + range.slots * static_cast<std::int64_t>(segment.activation_bytes);
    }
    return bytes;
  });
  return costs;
}

// Machines and networks that differ widely; none has to be able to hold a model alone.
Json uneven_pool(int nodes, CounterRng& rng) {
  const auto one_of = [&rng](std::initializer_list<double> values) {
    return *(values.begin() + rng.next_below(static_cast<std::uint32_t>(values.size())));
  };
  Json pool = Json::object();
  for (int i = 0; i < nodes; ++i) {
    Json node = node_json(8080 + i, one_of({0.006, 0.012, 0.03, 8}), one_of({20, 100, 1000, 10'000}));
    node["benchmarks"]["gflops"] = one_of({10, 30, 50, 200}) + rng.next_below(5);
    node["region"] = std::string(1, static_cast<char>('A' + rng.next_below(3)));
    if (rng.next_below(4) == 0) node["benchmarks"]["transfer_gbps"] = one_of({0.02, 0.5});
    pool[std::to_string(i)] = node;
  }
  Json regions = Json::array();
  for (const char* pair : {"AA", "BB", "CC", "AB", "AC", "BC"}) {
    const bool near = pair[0] == pair[1];
    regions.push_back({{"between", {std::string(1, pair[0]), std::string(1, pair[1])}},
                       {"latency_ms", near ? one_of({0.1, 1}) : one_of({2, 20, 80})},
                       {"bandwidth_mbps", near ? one_of({1000, 10'000}) : one_of({20, 100, 1000})}});
  }
  pool["network"] = {{"regions", regions}};
  return pool;
}

struct Variant {
  bool is_async = false;
  bool has_unreachable = false;  // about two nodes of five
  bool has_rare_rounds = false;  // of averaging, some of them beside the steps
  bool has_frozen = false;       // segments of which only buffers are averaged
};

// Rounds that are compressed, of fragments or of the whole, and not the rarer the fewer clusters there are.
AveragingCosts rare_rounds(CounterRng& rng) {
  const auto fragments = 1 + 2 * static_cast<int>(rng.next_below(2));
  const double beside = rng.next_below(4);
  const double overlapped = 0.05 * rng.next_below(4);
  return {.rate =
              [=](int clusters) {
                return RoundRate{.waited = clusters % 3 == 0 ? 0.02 : 0.1,
                                 .overlapped = overlapped,
                                 .fragments = fragments,
                                 .steps_beside = beside};
              },
          .bytes_per_byte = rng.next_below(2) == 0 ? 3 : 0.27};
}

// A pool and a model, by number; without a plan where the pool cannot hold the model.
struct Instance {
  Instance(std::uint64_t seed, int kind, int nodes_at_most, Variant variant = {}) {
    CounterRng rng(rng_key(seed, "optimality_test"), 0);
    costs = model_of_kind(kind, rng.next_below(2) == 0 ? 1 : 4);
    if (variant.is_async) {
      costs.schedule.name = "async";
      if (rng.next_below(2) == 0) costs.schedule.max_staleness = static_cast<int>(rng.next_below(4));
    }
    const auto nodes = 1 + static_cast<int>(rng.next_below(static_cast<std::uint32_t>(nodes_at_most)));
    Json document = uneven_pool(nodes, rng);
    if (variant.has_rare_rounds) costs.averaging = rare_rounds(rng);
    for (int i = 0; i < nodes && variant.has_unreachable; ++i) {
      if (rng.next_below(5) < 2) document[std::to_string(i)]["reachable"] = false;
    }
    for (std::size_t i = 0; i + 1 < costs.segments.size() && variant.has_frozen; ++i) {
      Segment& segment = costs.segments[i];
      if (rng.next_below(2) == 0) continue;
      segment.parameters = segment.parameter_bytes = 0;
      segment.averaged_buffers = 64;
    }
    pool = pool_of(document);
  }

  ModelCosts costs;
  NodePool pool;
};

const SearchOptions kThroughput{.objective = Objective::kThroughput, .min_nodes = 1};

std::optional<double> predicted(const NodePool& pool, const ModelCosts& costs) {
  const ThroughputModel model(pool, costs);
  try {
    return refined_throughput(model, find_clusters(model, kThroughput).clusters).samples_per_second;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

// No stages of a cluster, which all connect to each other, are both unreachable, and no neighbours in a ring,
// of which the Roots are one.
void expect_connections(const NodePool& pool, const ModelCosts& costs,
                        const std::vector<DefinedCluster>& clusters) {
  const auto can_connect = [&](int a, int b) {
    const auto reachable = [&](int node) { return pool.node(node).reachable; };
    return reachable(a) || reachable(b);
  };
  for (const DefinedCluster& cluster : clusters) {
    for (std::size_t i = 0; i < cluster.members.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) EXPECT_TRUE(can_connect(cluster.members[i], cluster.members[j]));
    }
  }
  const auto holder = [&](const DefinedCluster& cluster, int segment) {
    return cluster.members[static_cast<std::size_t>(std::ranges::upper_bound(cluster.begins, segment) -
                                                    cluster.begins.begin()) -
                           1];
  };
  for (std::size_t c = 0; c < clusters.size() && clusters.size() > 1; ++c) {
    EXPECT_TRUE(can_connect(clusters[c].members[0], clusters[(c + 1) % clusters.size()].members[0]))
        << "the Roots of cluster " << c << " and the next";
  }
  for (int segment = 0; segment < costs.count() && clusters.size() > 1; ++segment) {
    if (costs.segments[segment].parameters + costs.segments[segment].averaged_buffers == 0) continue;
    for (std::size_t c = 0; c < clusters.size(); ++c) {
      EXPECT_TRUE(
          can_connect(holder(clusters[c], segment), holder(clusters[(c + 1) % clusters.size()], segment)))
          << "segment " << segment << " between clusters " << c << " and the next";
    }
  }
}

// A plan as it is defined.
std::vector<DefinedCluster> defined(const Clusters& found, const Throughput& plan) {
  std::vector<DefinedCluster> clusters;
  for (std::size_t c = 0; c < found.size(); ++c)
    clusters.push_back({found[c], plan.cuts[c]->begins, plan.cuts[c]->step_seconds});
  return clusters;
}

// By how much the best there is beats the plan that is found; nothing where there is no plan.
std::optional<double> gap(const Instance& instance) {
  const ThroughputModel model(instance.pool, instance.costs);
  BruteForce all(instance.pool, instance.costs);
  Clusters found;
  try {
    found = find_clusters(model, kThroughput).clusters;
  } catch (const ConfigError&) {
    EXPECT_FALSE(all.better_than(1e-9)) << "there is a plan";
    return std::nullopt;
  }
  const Throughput plan = refined_throughput(model, found);
  const std::vector<DefinedCluster> clusters = defined(found, plan);
  expect_connections(instance.pool, instance.costs, clusters);
  EXPECT_TRUE(all.better_than(plan.samples_per_second * (1 - 1e-9))) << "not even this plan";
  EXPECT_NEAR(plan.samples_per_second / all.samples_per_second(clusters), 1, 1e-9);
  const double best = all.better_than(plan.samples_per_second * (1 + 1e-9)).value_or(plan.samples_per_second);
  EXPECT_LE(best, throughput_bound(model) * (1 + 1e-9));
  return best / plan.samples_per_second - 1;
}

// Sanitizers look for something else than good plans, and take ten times as long.
#ifdef ROOKERY_SANITIZED
constexpr int kPools = 20;
#else
constexpr int kPools = 200;
#endif

// Of the best samples per second, in any pool; nearly all lose nothing.
constexpr double kMostLost = 0.05;

// As many pools with a plan for each kind of model.
TEST(FindClusters, IsAsGoodAsTheBestOfAllPlans) {
  for (const int kind : {0, 1, 2}) {
    int equal = 0;
    int pools = 0;
    for (std::uint64_t seed = 0; pools < kPools; ++seed) {
      SCOPED_TRACE(fmt::format("kind {}, seed {}", kind, seed));
      const std::optional<double> lost = gap(Instance(seed, kind, 7));
      if (!lost) continue;
      ++pools;
      equal += *lost == 0 ? 1 : 0;
      EXPECT_LE(*lost, kMostLost);
    }
    EXPECT_GE(equal, 0.95 * kPools) << "kind " << kind;
    RecordProperty(fmt::format("equal_{}", kind), equal);
  }
}

TEST(FindClusters, IsAsGoodAsTheBestOfAllAsynchronousPlans) {
  int equal = 0;
  int pools = 0;
  for (std::uint64_t seed = 0; pools < kPools; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const std::optional<double> lost = gap(Instance(seed, static_cast<int>(seed % 3), 6, {.is_async = true}));
    if (!lost) continue;
    ++pools;
    equal += *lost == 0 ? 1 : 0;
    EXPECT_LE(*lost, kMostLost);
  }
  EXPECT_GE(equal, 0.95 * kPools);
  RecordProperty("equal", equal);
}

TEST(FindClusters, IsAsGoodAsTheBestOfAllPlansWhoseNodesCanConnect) {
  int equal = 0;
  int pools = 0;
  for (std::uint64_t seed = 0; pools < kPools; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Instance instance(seed, static_cast<int>(seed % 3), 7, {.has_unreachable = true});
    if (ThroughputModel(instance.pool, instance.costs).apart().empty()) continue;  // as without
    const std::optional<double> lost = gap(instance);
    if (!lost) continue;
    ++pools;
    equal += *lost == 0 ? 1 : 0;
    EXPECT_LE(*lost, kMostLost);
  }
  EXPECT_GE(equal, 0.95 * kPools);
  RecordProperty("equal", equal);
}

TEST(FindClusters, NodesThatAverageOnlyBuffersCanConnect) {
  int pools = 0;
  for (std::uint64_t seed = 0; pools < kPools; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Instance instance(seed, static_cast<int>(seed % 3), 7,
                            {.has_unreachable = true, .has_frozen = true});
    const ThroughputModel model(instance.pool, instance.costs);
    if (model.apart().empty()) continue;
    try {
      const Clusters found = find_clusters(model, kThroughput).clusters;
      expect_connections(instance.pool, instance.costs, defined(found, refined_throughput(model, found)));
      ++pools;
    } catch (const ConfigError&) {  // no plan
    }
  }
}

TEST(FindClusters, IsAsGoodAsTheBestOfAllPlansWithRareRounds) {
  int equal = 0;
  int pools = 0;
  for (std::uint64_t seed = 0; pools < kPools; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const std::optional<double> lost =
        gap(Instance(seed, static_cast<int>(seed % 3), 6, {.has_rare_rounds = true}));
    if (!lost) continue;
    ++pools;
    equal += *lost == 0 ? 1 : 0;
    EXPECT_LE(*lost, kMostLost);
  }
  EXPECT_GE(equal, 0.95 * kPools);
  RecordProperty("equal", equal);
}

// Every node of a pool in turn is the one that is added.
TEST(FindClusters, ANodeMoreNeverMakesThePlanSlower) {
  for (std::uint64_t seed = 1000; seed < 1000 + kPools; ++seed) {
    const Instance instance(seed, static_cast<int>(seed % 3), 8);
    const std::optional<double> all = predicted(instance.pool, instance.costs);
    for (const PoolNode& node : instance.pool.nodes()) {
      if (instance.pool.nodes().size() == 1) break;
      const std::optional<double> fewer = predicted(instance.pool.without({node.id}), instance.costs);
      EXPECT_GE(all.value_or(0) * (1 + 1e-9), fewer.value_or(0)) << "seed " << seed << ", node " << node.id;
    }
  }
}

}  // namespace
}  // namespace rookery
