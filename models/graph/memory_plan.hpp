// Where every value of a stage lives, before anything is allocated.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "models/graph/differentiate.hpp"

namespace rookery {

enum class Placement : std::uint8_t {
  kState,      // parameters and buffers: the state arena, placed by the runtime
  kGradient,   // gradients of parameters: the gradient arena, placed by the runtime; where they
               // accumulate, `offset` is their place in transient memory as well
  kStash,      // needed from one phase to a later one: one copy for every micro-batch in flight
  kTransient,  // needed within the forward or within the backward phases only: one copy
};

struct ValuePlace {
  Placement placement = Placement::kTransient;
  std::size_t offset = 0;  // within the stash of a slot or within the transient memory
};

// Sizes in bytes, all multiples of kAlignment.
struct MemoryPlan {
  std::vector<ValuePlace> places;    // by ValueId
  std::vector<std::size_t> scratch;  // by OpId: offset in transient memory
  std::size_t stash_bytes = 0;       // of one slot
  std::size_t transient_bytes = 0;
};

// `types` by ValueId for one micro-batch size, `scratch_bytes` by OpId. Values whose lifetimes do
// not meet share memory (first fit over the intervals, largest first). The backward phases of a
// micro-batch follow each other directly, so that what passes between them is transient. With
// `accumulates`, gradients of parameters also get a transient place, for every micro-batch but a
// step's first.
MemoryPlan plan_memory(const TrainingGraph& training, std::span<const TensorType> types,
                       std::span<const std::size_t> scratch_bytes, bool accumulates);

// The same for a graph that only runs forward: nothing is stashed; inputs and outputs stay until
// the next micro-batch.
MemoryPlan plan_memory(const Graph& forward, std::span<const TensorType> types,
                       std::span<const std::size_t> scratch_bytes);

// The value whose memory `value` shares, through any number of views; itself when it is no view's
// output.
ValueId memory_owner(const Graph& graph, ValueId value);

}  // namespace rookery
