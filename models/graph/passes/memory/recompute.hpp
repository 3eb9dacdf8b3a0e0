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
#include <optional>
#include <ranges>
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

// For each of `of`, values or ops of the new graph, what `before` has for the one that it stands for.
template <typename Range>
std::vector<std::ranges::range_value_t<Range>> taken_from(const Range& before, const std::vector<int>& of) {
  std::vector<std::ranges::range_value_t<Range>> now;
  now.reserve(of.size());
  for (const int id : of) now.push_back(before[id]);
  return now;
}

// Gradients of weights of all sections but the first move into the phase of those of inputs, so that what
// was made again dies with its section.
RecomputedGraph recompute(const TrainingGraph& training, const Sections& sections);

// Finds the sections that take least memory. Every way to divide the ops that is tried is looked at once, for
// any number of micro-batches in flight. Not for several threads at once.
class Recomputation {
 public:
  // `types` and `scratch_bytes` as in plan_memory(). All arguments outlive it.
  Recomputation(const TrainingGraph& training, std::span<const TensorType> types,
                std::span<const std::size_t> scratch_bytes, StepShape step);

  struct Planned {
    RecomputedGraph graph;
    MemoryPlan plan;
  };
  // With the sections for which `slots` micro-batches in flight take least; the graph as it is where nothing
  // is gained. Valid as long as the object is.
  const Planned& best(int slots);

 private:
  struct Candidate {
    Sections sections;
    std::optional<MemoryDemand> demand;
    std::optional<Planned> planned;
  };
  Planned plan(RecomputedGraph graph) const;
  const MemoryDemand& demand(Candidate& candidate) const;
  const Planned& planned(Candidate& candidate) const;

  const TrainingGraph& training_;
  std::span<const TensorType> types_;
  std::span<const std::size_t> scratch_bytes_;
  StepShape step_;
  Planned same_;  // the graph as it is
  std::vector<Candidate> candidates_;
};

}  // namespace rookery
