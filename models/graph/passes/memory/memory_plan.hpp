// Decides where every value of a stage lives, before anything is allocated.
//
// A micro-batch in flight has a slot of its own from its forward to the end of its backward phases; one more
// piece of memory is shared by all slots. What backward needs of forward is stashed in the slot. Everything
// else lies where it costs least: in parts of the slot that hold nothing at that time (the stash is not there
// yet in early forward, and no longer in late backward), or in the shared memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "models/graph/training_graph.hpp"

namespace rookery {

enum class Placement : std::uint8_t {
  kState,     // parameters, buffers and constants: the state arena, placed by the runtime
  kGradient,  // gradients of parameters, but of those updated in backward: the gradient arena, placed by
              // the runtime; where they accumulate, `at` is the place of a micro-batch's share
  kWorking,   // `at`
};

// A place in the slot of the micro-batch or in the memory that all slots share.
struct WorkingPlace {
  bool in_slot = false;
  std::size_t offset = 0;
};

struct ValuePlace {
  Placement placement = Placement::kWorking;
  WorkingPlace at;
};

// Sizes in bytes, all multiples of kAlignment.
struct MemoryPlan {
  std::vector<ValuePlace> places;     // by ValueId
  std::vector<WorkingPlace> scratch;  // by OpId
  std::size_t stash_bytes = 0;        // of one slot: what is alive while others may run
  std::size_t transient_bytes = 0;    // shared
  std::size_t live_bytes = 0;         // most that is alive at one time: no plan for one slot takes less
};

struct StepShape {
  // A step may have several micro-batches: gradients of parameters get a working place too, for every
  // micro-batch but a step's first.
  bool accumulates = false;
  // Other micro-batches may come between the two backward phases of one: what passes between them is stashed,
  // too. Otherwise they follow each other directly.
  bool delays_weights = false;
};

// `types` by ValueId for one micro-batch size, `scratch_bytes` by OpId. Values whose lifetimes do not meet
// share memory, and so do an op's output and an input that it may be written over (OpDefinition::in_place)
// and that dies there; inputs of the stage and gradients that arrive are never written over.
MemoryPlan plan_memory(const TrainingGraph& training, std::span<const TensorType> types,
                       std::span<const std::size_t> scratch_bytes, StepShape step);

// The same without the places: what any plan takes at least. Less work.
struct MemoryDemand {
  std::size_t stash_bytes = 0;  // as in MemoryPlan
  std::size_t live_bytes = 0;
};
MemoryDemand memory_demand(const TrainingGraph& training, std::span<const TensorType> types,
                           std::span<const std::size_t> scratch_bytes, StepShape step);

// plan_memory() for a graph that only runs forward: nothing is stashed; inputs and outputs stay until
// the next micro-batch.
MemoryPlan plan_memory(const Graph& forward, std::span<const TensorType> types,
                       std::span<const std::size_t> scratch_bytes);

// The value whose memory `value` shares, through any number of views; itself when it is no view's
// output.
ValueId memory_owner(const Graph& graph, ValueId value);

}  // namespace rookery
