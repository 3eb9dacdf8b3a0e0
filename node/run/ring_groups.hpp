// The groups that join the clusters of a plan: the rings that a node is in, and the Roots' ring. In each a
// member's rank is the number of its cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "clusterize/plan/node_metadata.hpp"
#include "models/graph/stage.hpp"
#include "node/run/node_options.hpp"
#include "node/transport/zmq_link.hpp"
#include "trainer/averaging/averagers.hpp"

namespace rookery {

// A ring that a node is in.
struct NodeRing {
  int id = 0;        // of the plan's ring
  std::string name;  // for messages: "ring 2"
  std::vector<std::string>
      parameters;                 // and buffers that it averages, owned by the node's stage, in its order
  AveragedLoad load;              // of them
  std::vector<PeerInfo> members;  // by rank
  std::uint64_t under_way = kRingUnderWay;
};

// By rising ids; none in a plan of one cluster. Together they have owned_averaged_values() of
// `stage`, the node's. ConfigError where stage and rings are not of one plan.
std::vector<NodeRing> rings_of(const NodeMetadata& metadata, const Stage& stage);

// With the pipeline's number those of all groups of a plan.
constexpr GroupId ring_group(int id) {
  return 1 + static_cast<GroupId>(id);
}
inline GroupId roots_group(const NodeMetadata& metadata) {
  return ring_group(metadata.ring_count);
}

GroupOptions ring_options(const NodeOptions& options, const NodeMetadata& metadata, const NodeRing& ring);
// On a Root of a plan of several clusters.
std::optional<GroupOptions> roots_options(const NodeOptions& options, const NodeMetadata& metadata);

}  // namespace rookery
