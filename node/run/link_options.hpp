// The network of one node of a plan: where it listens, how long it waits, how much may be under way.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "clusterize/plan/node_metadata.hpp"
#include "models/graph/stage.hpp"
#include "node/run/node_options.hpp"
#include "node/transport/endpoint.hpp"
#include "trainer/encoding/edge_encoding.hpp"
#include "trainer/encoding/reconstructions.hpp"

namespace rookery {

// The group of a cluster's stages.
constexpr GroupId kPipelineGroup = 0;

// All that an Endpoint needs but a stop descriptor; and whom it talks with: the stages of its cluster, its
// neighbours in its rings and, as a Root, those among the Roots.
EndpointOptions endpoint_options(const NodeOptions& options, const NodeMetadata& metadata);
std::vector<EndpointPeer> endpoint_peers(const NodeMetadata& metadata);
// The deadline of a group's waits. Whoever is first in a round of several clusters waits for the slowest,
// which may take several times as long for its steps. Nobody is lost meanwhile without being noticed:
// heartbeats go on.
std::chrono::milliseconds longest_wait(const NodeMetadata& metadata);

// How the stages of its cluster send each other values and gradients: the same on all of them.
EdgeEncoding edge_encoding(const NodeMetadata& metadata);
// What `stage` has of the samples of these; nothing where none travels by its difference.
std::optional<Reconstructions> reconstructions_of(const NodeMetadata& metadata, const Stage& stage);

// The pipeline, with budgets and buffers that the tensors of `stage` never fill.
GroupOptions pipeline_options(const NodeOptions& options, const NodeMetadata& metadata, const Stage& stage);

}  // namespace rookery
