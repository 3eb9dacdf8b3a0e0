// Where every value of a stage lives, before anything is allocated.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "models/graph/differentiate.hpp"

namespace rookery {

enum class Placement : std::uint8_t {
  kState,      // parameters and buffers: the state arena, placed by the runtime
  kGradient,   // gradients of parameters: the gradient arena, placed by the runtime
  kStash,      // needed from one phase to a later one: one copy for every micro-batch in flight
  kTransient,  // needed within a phase only: one copy
};

struct ValuePlace {
  Placement placement = Placement::kTransient;
  std::size_t offset = 0;  // within the stash of a slot or within the transient memory
};

// Sizes in bytes, all multiples of kAlignment.
struct MemoryPlan {
  std::vector<ValuePlace> places;         // by ValueId
  std::vector<std::size_t> scratch;       // by OpId: offset in transient memory
  std::size_t stash_bytes = 0;            // of one slot
  std::size_t transient_bytes = 0;
};

// `types` by ValueId for one micro-batch size, `scratch_bytes` by OpId. Values whose lifetimes do
// not meet share memory (first fit over the intervals, largest first).
MemoryPlan plan_memory(const TrainingGraph& training, std::span<const TensorType> types,
                       std::span<const std::size_t> scratch_bytes);

// The same for a graph that only runs forward: everything is transient except its inputs and
// outputs, which stay until the next micro-batch.
MemoryPlan plan_memory(const Graph& forward, std::span<const TensorType> types,
                       std::span<const std::size_t> scratch_bytes);

}  // namespace rookery
