// Is the search's answer the best there is? Small pools are compared with brute force.
#include <gtest/gtest.h>

#include <cstdlib>

#include "clusterize/cut_refinement.hpp"
#include "clusterize/search.hpp"
#include "tests/clusterize/brute_force.hpp"
#include "tests/clusterize/plan_support.hpp"

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
                              .forward_flops = flops,
                              .backward_flops = 2 * flops,
                              .update_flops = 16.0 * static_cast<double>(parameters),
                              .parameters = parameters,
                              .parameter_bytes = 4 * parameters,
                              .activation_bytes = i == 0 ? 0 : bytes,
                              .gradient_bytes = i == 0 ? 0 : bytes});
  }
  if (kind == 2) costs.shared = {{.segments = {0, kSegments - 1}, .bytes = 8e6}};
  costs.memory = [segments = costs.segments](int first, int last, int slots) {
    std::int64_t bytes = 0;
    for (int i = first; i < last; ++i) {
      const Segment& segment = segments[static_cast<std::size_t>(i)];
      bytes += 4 * segment.parameter_bytes + slots * static_cast<std::int64_t>(segment.activation_bytes);
    }
    return bytes;
  };
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

struct Outcome {
  int pools = 0;
  int equal = 0;
  double worst = 0;  // by how much the best there is was better
};

Outcome compare(int pools, int most_nodes) {
  Outcome outcome;
  for (std::uint64_t seed = 0; outcome.pools < pools; ++seed) {
    CounterRng rng(rng_key(seed, "optimality_test"), 0);
    const int kind = static_cast<int>(seed % 3);
    const ModelCosts costs = model_of_kind(kind, rng.next_below(2) == 0 ? 1 : 4);
    const auto nodes = 1 + static_cast<int>(rng.next_below(static_cast<std::uint32_t>(most_nodes)));
    const NodePool pool = pool_of(uneven_pool(nodes, rng));
    const CostModel model(pool, costs);
    BruteForce all(pool, costs);
    Clusters found;
    try {
      found =
          find_clusters(model, {.objective = Objective::kThroughput, .min_nodes = 1, .seed = seed}).clusters;
    } catch (const ConfigError&) {
      EXPECT_FALSE(all.better_than(1e-9)) << "seed " << seed << ": there is a plan";
      continue;
    }
    const Throughput predicted = refined_throughput(model, found);
    std::vector<DefinedCluster> clusters;
    for (std::size_t c = 0; c < found.size(); ++c)
      clusters.push_back({found[c], predicted.cuts[c]->begins, predicted.cuts[c]->step_seconds});
    EXPECT_TRUE(all.better_than(predicted.samples_per_second * (1 - 1e-9))) << "not even this plan";
    EXPECT_NEAR(predicted.samples_per_second / all.samples_per_second(clusters), 1, 1e-9);
    const std::optional<double> better = all.better_than(predicted.samples_per_second * (1 + 1e-9));
    const double gap = better ? *better / predicted.samples_per_second - 1 : 0;
    if (gap > 0)
      std::printf("seed %d, %d nodes, kind %d: %.3f %%\n", static_cast<int>(seed), nodes, kind, 100 * gap);
    ++outcome.pools;
    outcome.equal += better ? 0 : 1;
    outcome.worst = std::max(outcome.worst, gap);
  }
  return outcome;
}

// ROOKERY_LONG_TESTS=1 takes 200 pools of up to 7 nodes instead.
TEST(FindClusters, IsAsGoodAsTheBestOfAllPlans) {
  const bool is_long = std::getenv("ROOKERY_LONG_TESTS") != nullptr;
  const Outcome outcome = is_long ? compare(200, 7) : compare(40, 6);
  EXPECT_LE(outcome.worst, 0.01);
  EXPECT_GE(outcome.equal, 0.95 * outcome.pools);
}

// Every node of a pool in turn is the one that is added.
TEST(FindClusters, ANodeMoreNeverMakesThePlanSlower) {
  const SearchOptions options{.objective = Objective::kThroughput, .min_nodes = 1};
  for (std::uint64_t seed = 1000; seed < 1012; ++seed) {
    CounterRng rng(rng_key(seed, "optimality_test"), 0);
    const ModelCosts costs = model_of_kind(static_cast<int>(seed % 3), seed % 2 == 0 ? 1 : 4);
    const NodePool pool = pool_of(uneven_pool(6, rng));
    const auto predicted = [&](const NodePool& of) {
      const CostModel model(of, costs);
      try {
        return refined_throughput(model, find_clusters(model, options).clusters).samples_per_second;
      } catch (const ConfigError&) {
        return 0.0;
      }
    };
    const double all = predicted(pool);
    for (const PoolNode& node : pool.nodes())
      EXPECT_GE(all * (1 + 1e-9), predicted(pool.without({node.id})))
          << "seed " << seed << ", node " << node.id;
  }
}

}  // namespace
}  // namespace rookery
