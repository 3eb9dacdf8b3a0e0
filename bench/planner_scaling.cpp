// How long planning takes, and how much of the bound it reaches, for pools of many nodes: see
// bench/README.md.
#include <sys/resource.h>

#include <chrono>

#include "clusterize/order/cut_refinement.hpp"
#include "clusterize/search/find_clusters.hpp"
#include "clusterize/search/throughput_bound.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/process/program.hpp"
#include "tests/clusterize/function_memory.hpp"

namespace rookery {
namespace {

namespace po = boost::program_options;

constexpr int kRegions = 40;

// Unequal machines in regions: near each other within, at 10 to 200 ms and 50 to 1000 Mbit/s between.
NodePool worldwide_pool(int nodes, std::uint64_t seed) {
  CounterRng rng(rng_key(seed, "planner_scaling"), 0);
  const auto between = [&rng](std::uint32_t low, std::uint32_t high) {
    return low + rng.next_below(high - low + 1);
  };
  Json pool = Json::object();
  for (int i = 0; i < nodes; ++i) {
    pool[std::to_string(i)] = {
        {"IP", fmt::format("10.{}.{}.{}:8080", i / 62'500, i / 250 % 250, i % 250 + 1)},
        {"region", fmt::format("region_{}", i % kRegions)},
        {"benchmarks",
         {{"ram", between(2, 32)}, {"bandwidth", 100 * between(1, 100)}, {"gflops", between(20, 1000)}}}};
  }
  Json regions = Json::array();
  for (int a = 0; a < kRegions; ++a) {
    for (int b = a; b < kRegions; ++b) {
      regions.push_back({{"between", {fmt::format("region_{}", a), fmt::format("region_{}", b)}},
                         {"latency_ms", a == b ? 1 : between(10, 200)},
                         {"bandwidth_mbps", a == b ? 10'000 : between(50, 1000)}});
    }
  }
  pool["network"] = {{"regions", regions}};
  return NodePool::from_json(pool, "pool");
}

// Twelve blocks alike, 8 GB in all with a batch of 64: most nodes hold it only together.
ModelCosts block_model() {
  ModelCosts costs{.name = "blocks", .batch_size = 64, .micro_batches = 8};
  for (int i = 0; i < 12; ++i) {
    costs.segments.push_back({.begin = i,
                              .work = {.forward_flops = 20e9, .backward_flops = 40e9, .update_flops = 112e6},
                              .parameters = 7'000'000,
                              .parameter_bytes = 28'000'000,
                              .activation_bytes = i == 0 ? 0 : 2e6,
                              .gradient_bytes = i == 0 ? 0 : 2e6});
  }
  costs.memory = memory_by([](const StageRange& range) {
    return static_cast<std::int64_t>(range.last - range.first) *
           (250'000'000 + 50'000'000 * std::int64_t{range.slots});
  });
  return costs;
}

rusage usage() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage;
}

double processor_seconds() {
  const timeval time = usage().ru_utime;
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double memory_gb() {
  return static_cast<double>(usage().ru_maxrss) / 1e6;
}

int run(const ProgramArguments& arguments) {
  const ModelCosts costs = block_model();
  fmt::print(
      "| nodes | seconds | of processor | memory | clusters | nodes used | samples/s | of the arithmetic | "
      "of the bound "
      "|\n|---|---|---|---|---|---|---|---|---|\n");
  for (const int nodes : arguments["nodes"].as<std::vector<int>>()) {
    const NodePool pool = worldwide_pool(nodes, 1);
    const auto start = std::chrono::steady_clock::now();
    const double before = processor_seconds();
    const ThroughputModel model(pool, costs);
    SearchOptions options{.objective = Objective::kThroughput, .min_nodes = 1};
    options.threads = arguments["threads"].as<int>();
    options.seed = arguments["seed"].as<std::uint64_t>();
    const Grouping found = find_clusters(model, options);
    const Throughput predicted = refined_throughput(model, found.clusters);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    fmt::print("| {} | {:.1f} | {:.1f} | {:.2f} GB | {} | {} | {:.0f} | {:.1f} % | {:.1f} % |\n", nodes,
               spent.count(), processor_seconds() - before, memory_gb(), found.clusters.size(),
               pool.nodes().size() - found.left_out.size(), predicted.samples_per_second,
               100 * predicted.samples_per_second / model.bound_samples_per_second(),
               100 * predicted.samples_per_second / throughput_bound(model));
    std::fflush(stdout);
  }
  return kDone;
}

}  // namespace
}  // namespace rookery

int main(int argc, char** argv) {
  using namespace rookery;
  ProgramOptions options("Options");
  options.add_options()("nodes",
                        po::value<std::vector<int>>()->multitoken()->default_value({10, 30, 100, 300, 1000},
                                                                                   "10 30 100 300 1000"),
                        "sizes of the pools");
  options.add_options()("seed", po::value<std::uint64_t>()->default_value(42), "of the search");
  options.add_options()("threads", po::value<int>()->default_value(2), "of the search");
  const ProgramInfo info{.name = "planner_scaling",
                         .summary = "Plans pools of more and more nodes in 40 regions.",
                         .example = "  planner_scaling\n  planner_scaling --nodes 10000"};
  return run_program(info, options, argc, argv, run);
}
