// A made-up model whose costs are easily added up, and machines for it.
#pragma once

#include "clusterize/costs/model_costs.hpp"
#include "tests/clusterize/function_memory.hpp"
#include "tests/clusterize/plan_support.hpp"

namespace rookery {

// Segments alike: each has a parameter, a gigabyte, and something to pass on.
inline ModelCosts chain(int segments, double gigabytes_each = 0.1) {
  ModelCosts costs{.name = "chain", .batch_size = 32};
  for (int i = 0; i < segments; ++i) {
    costs.segments.push_back({.begin = i,
                              .work = {.forward_flops = 1e9, .backward_flops = 2e9, .update_flops = 16e3},
                              .parameters = 1000,
                              .parameter_bytes = 4000,
                              .activation_bytes = i == 0 ? 0 : 1e4,
                              .gradient_bytes = i == 0 ? 0 : 1e4});
  }
  costs.memory = memory_by([gigabytes_each](const StageRange& range) {
    return static_cast<std::int64_t>((range.last - range.first) * range.slots * gigabytes_each * 1e9);
  });
  return costs;
}

// Of 100 GFLOP/s each, and connections that are no limit.
inline Json fast_pool(int nodes, double latency_ms, double bandwidth) {
  Json pool = equal_nodes(nodes);
  for (auto& node : pool) node["benchmarks"].update({{"gflops", 100}, {"bandwidth", 100000}});
  pool["network"] = {{"default", {{"latency_ms", latency_ms}, {"bandwidth_mbps", bandwidth}}}};
  return pool;
}

}  // namespace rookery
