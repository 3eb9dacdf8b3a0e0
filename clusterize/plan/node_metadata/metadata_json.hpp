// node_data/nodes/node_N.json as a document. Internal to this module.
#pragma once

#include <string>

#include "clusterize/plan/node_metadata.hpp"
#include "models/base/files/json_file.hpp"

namespace rookery {

OrderedJson to_json(const NodeMetadata& metadata);
// What the document tells `node`. ConfigError naming `file` and the key where it tells nothing, or not this
// node.
NodeMetadata metadata_from_json(const Json& document, const std::string& node, const std::string& file);

}  // namespace rookery
