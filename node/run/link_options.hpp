// The network of one stage of a plan: where it listens, how long it waits, how much may be under way.
#pragma once

#include "clusterize/plan/node_metadata.hpp"
#include "models/graph/stage.hpp"
#include "node/run/node_options.hpp"
#include "node/transport/zmq_link.hpp"

namespace rookery {

// All that a ZmqLink needs but a stop descriptor: budgets and buffers that the tensors of `stage` never fill.
ZmqLinkOptions link_options(const NodeOptions& options, const NodeMetadata& metadata, const Stage& stage);

}  // namespace rookery
