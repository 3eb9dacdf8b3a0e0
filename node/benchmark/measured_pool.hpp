// node_benchmark puts what it found out into node_configs.json.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "models/base/files/json_file.hpp"
#include "node/benchmark/link_benchmark.hpp"

namespace rookery {

struct MeasuredNode {
  std::string id;     // "0"
  double ram_gb = 0;  // GB of 10^9 bytes
  double gflops = 0;
  int threads = 1;                           // with which that was measured
  std::map<std::string, LinkMeasure> links;  // by the other's id
  // The rate of sending and receiving, GB/s, where that takes time of its arithmetic.
  std::optional<double> transfer_gbps;
  std::optional<bool> reachable;  // by others; nothing where that was not tried
};

// `document` with the node's ram, gflops and threads, its links (the slower of both directions), and as
// bandwidth the best that it reached with any other, where there are links its transfer_gbps, and
// `"reachable": false` where others cannot connect to it. Everything else stays as it is, in its order.
// ConfigError when there is no such node.
OrderedJson with_measured(OrderedJson document, const MeasuredNode& node);

// The same with a file, written whole. Programs on machines that share the folder take turns by a lock on
// FILE.lock; ConfigError when it cannot be had within ten seconds.
void write_measured(const std::filesystem::path& node_configs, const MeasuredNode& node);

}  // namespace rookery
