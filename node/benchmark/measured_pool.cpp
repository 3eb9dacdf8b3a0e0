#include "node/benchmark/measured_pool.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "clusterize/pool/node_pool.hpp"
#include "models/base/error.hpp"
#include "models/base/files/file_lock.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"

namespace rookery {
namespace {

// Three digits say all that a measurement knows.
double rounded(double value) {
  if (!(value > 0)) return value;
  const double unit = std::pow(10, std::floor(std::log10(value)) - 2);
  return std::stod(fmt::format("{:.6g}", std::round(value / unit) * unit));
}

void set_link(OrderedJson& links, const std::string& one, const std::string& other,
              const LinkMeasure& measure) {
  const OrderedJson link = {{"between", {one, other}},
                            {"latency_ms", rounded(measure.latency_ms)},
                            {"bandwidth_mbps", rounded(std::min(measure.to_mbps, measure.from_mbps))}};
  for (OrderedJson& known : links) {
    const OrderedJson& between = known.at("between");
    if ((between[0] == one && between[1] == other) || (between[0] == other && between[1] == one)) {
      known = link;
      return;
    }
  }
  links.push_back(link);
}

}  // namespace

OrderedJson with_measured(OrderedJson document, const MeasuredNode& node) {
  if (!document.contains(node.id)) throw ConfigError(fmt::format("there is no node '{}'", node.id));
  // An ordered object moves its members when it grows: nothing here may point into it for long.
  const auto benchmark = [&](const char* key) -> OrderedJson& {
    return document[node.id]["benchmarks"][key];
  };
  benchmark("ram") = std::floor(100 * node.ram_gb) / 100;
  benchmark("gflops") = rounded(node.gflops);
  document[node.id]["threads"] = node.threads;
  double bandwidth = 0;
  for (const auto& [other, measure] : node.links) {
    bandwidth = std::max({bandwidth, measure.to_mbps, measure.from_mbps});
    OrderedJson& links = document["network"]["links"];
    if (links.is_null()) links = OrderedJson::array();
    set_link(links, node.id, other, measure);
  }
  if (bandwidth > 0) benchmark("bandwidth") = rounded(bandwidth);
  if (node.transfer_gbps) {
    benchmark("transfer_gbps") = rounded(*node.transfer_gbps);
  } else if (!node.links.empty()) {
    document[node.id]["benchmarks"].erase("transfer_gbps");
  }
  if (node.reachable) {
    document[node.id].erase("reachable");
    if (!*node.reachable) document[node.id]["reachable"] = false;
  }
  return document;
}

void write_measured(const std::filesystem::path& node_configs, const MeasuredNode& node) {
  FileLock lock(node_configs.string() + ".lock");
  lock.take(FileLock::Kind::kExclusive, [&](const std::string& holders) {
    spdlog::info("waiting for {}, which writes {}, too", holders, node_configs.string());
  });
  NodePool::read(node_configs);
  constexpr std::uint64_t kMostBytes = 64 << 20;
  const OrderedJson merged = with_context(node_configs.string(), [&] {
    return with_measured(OrderedJson::parse(read_file(node_configs, kMostBytes)), node);
  });
  NodePool::from_json(Json::parse(merged.dump()), node_configs.string());
  write_json(node_configs, merged);
}

}  // namespace rookery
