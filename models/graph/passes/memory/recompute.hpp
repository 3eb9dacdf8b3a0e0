// Activation recomputation (Chen et al., "Training Deep Nets with Sublinear Memory Cost", arXiv 1604.06174).
// The forward ops of a stage are divided into sections, runs of neighbouring ops. Forward keeps only what
// passes from one section to another; before the gradient ops of a section, its forward ops run again. A
// second forward, for less memory, and the same bits.
//
// The op that runs again is named "<op>.again" and carries the name of the first as "forward"; the caller
// gives both the same kernel, so that random ops draw the same numbers. What an op writes into state of the
// stage (running statistics) is absent from its outputs the second time.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "models/graph/passes/memory/memory_plan.hpp"
#include "models/graph/training_graph.hpp"

namespace rookery {

// A division of the forward ops into sections.
struct Sections {
  std::vector<OpId> begins;  // of each section, by position among the forward ops; rising, the first is 0
  bool keeps_last = true;    // the last one is not run again: its gradient ops may follow at once
};

struct RecomputedGraph {
  TrainingGraph training;
  // For each value and op the one of the graph that was recomputed that it stands for; several may stand for
  // the same.
  std::vector<ValueId> values;
  std::vector<OpId> ops;
};

// Gradients of weights of all sections but the first move into the phase of those of inputs, so that what
// was made again dies with its section.
RecomputedGraph recompute(const TrainingGraph& training, const Sections& sections);

// With the sections, of those that are tried, for which `slots` micro-batches in flight take least memory;
// the graph as it is where nothing is gained. `types` and `scratch_bytes` as in plan_memory().
RecomputedGraph recompute(const TrainingGraph& training, std::span<const TensorType> types,
                          std::span<const std::size_t> scratch_bytes, int slots, StepShape step);

}  // namespace rookery
