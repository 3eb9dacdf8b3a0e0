// node_data/node_configs.json: the machines there are. See node_data/README.md for every key.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/base/json_file.hpp"

namespace rookery {

struct PoolNode {
  std::string id;       // "0"; the node is called node_<id>
  std::string address;  // "10.0.0.7:8080"
  double ram_gb = 0;    // GB of 10^9 bytes
  double bandwidth_mbps = 0;
  std::optional<double> gflops;  // sustained, single precision
  std::string region;            // empty: none given
};

struct LinkSpeed {
  double latency_ms = 0;
  double bandwidth_mbps = 0;
  bool operator==(const LinkSpeed&) const = default;
};

class NodePool {
 public:
  // ConfigError "FILE: nodes path: …" for unknown keys, wrong units, duplicate addresses, values
  // that are not positive finite numbers.
  static NodePool from_json(const Json& document, std::string_view file);
  static NodePool read(const std::filesystem::path& node_configs);

  const std::vector<PoolNode>& nodes() const { return nodes_; }  // ids in rising order
  // The most specific of links, regions and default, never faster than either node's own
  // connection. Symmetric; between indices of nodes().
  LinkSpeed link(std::size_t a, std::size_t b) const;
  // True once any node gives gflops or the pool has a network: then `throughput` is the default
  // objective.
  bool has_speeds() const;

 private:
  std::vector<PoolNode> nodes_;
  std::optional<LinkSpeed> default_;
  std::map<std::pair<std::string, std::string>, LinkSpeed> regions_;
  std::map<std::pair<std::string, std::string>, LinkSpeed> links_;
};

}  // namespace rookery
