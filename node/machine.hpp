// The nodes of one machine: one, or where the plan's schedule gives its machines several stages
// (trainer/schedule/machine_order.hpp) one for each, "node_0", "node_0.1", …, which compute in turns.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "node/run/node_options.hpp"

namespace rookery {

// What runs one of them: makes its Node, calls `made`, which waits until the machine's others are made, and
// then Node::run().
using RunNode = std::function<void(const NodeOptions& options, const std::function<void()>& made)>;

// Runs a machine's nodes (nodes_of_machine()), of which `first` is the first, each in a thread of its own,
// that one in the caller's; returns when all have ended. The others have the options of the first, but for
// their names; the ports that they listen at, which are as far from the first's as in the plan; and the names
// of their traces, "node_0.1.json" beside "node_0.json". Throws what the one has thrown whose failure ended
// them.
void run_nodes(const std::vector<std::string>& nodes, const NodeOptions& first, const RunNode& run);

}  // namespace rookery
