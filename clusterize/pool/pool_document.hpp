// node_configs.json as it stands in the file. See node_data/README.md for every key.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "clusterize/pool/node_pool.hpp"
#include "models/base/files/json_file.hpp"

namespace rookery {

using NamePair = std::pair<std::string, std::string>;  // in rising order

struct PoolDocument {
  std::vector<PoolNode> nodes;            // in rising order of their ids, without `host`
  std::optional<LinkSpeed> any_link;      // network/default
  std::map<NamePair, LinkSpeed> regions;  // by names of regions
  std::map<NamePair, LinkSpeed> links;    // by ids of nodes, which are there
};

// ConfigError "FILE: 0/benchmarks/ram: "8GB" is not a number of GB, e.g. 8; …": everything that is
// wrong with the document, each with its place in it, the value that stands there and what is expected.
PoolDocument read_pool_document(const Json& document, std::string_view file);

}  // namespace rookery
