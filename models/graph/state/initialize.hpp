// Fills parameters and buffers with the values that they have before training.
#pragma once

#include <cstdint>

#include "models/graph/state/state_dict.hpp"

namespace rookery {

// The state of a graph before training: what is `given`, and of the rest a function of (seed, name) alone.
StateDict initial_state(const Graph& graph, std::uint64_t seed, StateDict given = {});

}  // namespace rookery
