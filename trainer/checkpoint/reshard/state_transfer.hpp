// Moves a run's state between nodes, over the links that they have anyhow.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "models/tensor/tensor.hpp"
#include "trainer/agreement.hpp"
#include "trainer/checkpoint/reshard/state_routes.hpp"

namespace rookery {

// What a node does with ranges: gives those of what it has, takes those of what it lacks, all in order.
struct StateAccess {
  std::function<void(const StateRange&, std::span<std::byte> into)> read;
  std::function<void(const StateRange&, std::span<const std::byte> from)> write;
};

// Ranges of a tensor that a node holds, wherever its memory is.
void read_range(ConstTensorView tensor, const StateRange& range, std::span<std::byte> into);
void write_range(TensorView tensor, const StateRange& range, std::span<const std::byte> from);

// Every node tells what it has and lacks; then all that is lacked and that somebody has is sent. Called by
// all nodes of all clusters at once; a name is used once in a run. What state_routes() and the access throw;
// DataError naming tensor and sender where what comes is not what was sent; TransportError.
void transfer_state(const std::string& name, const NodeState& own, int cluster, const Agreement& agreement,
                    const StateAccess& access);

}  // namespace rookery
