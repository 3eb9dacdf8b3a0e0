// Says what a stage is compiled for, and the memory that it takes: known from its graph alone, so that a
// planner can place stages without building them.
#pragma once

#include <cstdint>
#include <vector>

#include "models/graph/stage.hpp"
#include "models/kernels/choose.hpp"
#include "models/kernels/processor.hpp"
#include "models/runtime/optimizer.hpp"

namespace rookery {

struct CompileOptions {
  std::vector<std::int64_t> training_sizes;   // every micro-batch size that training will bring
  std::vector<std::int64_t> inference_sizes;  // and validation
  int slots = 1;  // training micro-batches in flight: whose forward ran and whose backward is not at its end
  int micro_batches = 1;  // of a step; its gradients accumulate over them
  // Updates may come between a micro-batch's forward and its backward, which uses the weights of the forward
  // all the same.
  bool stashes_weights = false;
  // Between the backward phases of a micro-batch others may go forward, and backward by their first phase:
  // what passes between the two has room in the slot.
  bool delays_weights = false;
  // An update may be taken back: there is a second copy of what it and the forwards after it change.
  bool updates_ahead = false;
  // Large parameters change in backward, each as soon as nothing of the step reads it any more, so that their
  // gradients take no memory of their own (graph/passes/memory/updates_in_backward.hpp): where a step has one
  // micro-batch, and nobody changes gradients.
  bool updates_in_backward = false;
  // Runs forward ops again before their gradients where that saves memory; the same bits.
  bool recompute = false;
  KernelChoice kernels;
  std::uint64_t seed = 0;
  OptimizerSettings optimizer;                     // used when training_sizes is not empty
  const Processor* processor = &host_processor();  // that the stage runs on

  bool accumulates() const { return micro_batches > 1; }
  // Of the weights: the newest; and, where micro-batches are in flight after an update, those of their steps,
  // and what the update leaves for later ones (weight_versions.hpp).
  int versions() const {
    const int steps = stashes_weights ? (slots - 1 + micro_batches - 1) / micro_batches : 0;
    return steps == 0 ? 1 : steps + 2;
  }
};

// Bytes, by what they are for.
struct MemoryUse {
  std::int64_t parameters = 0;  // and buffers and constants
  std::int64_t versions = 0;    // of parameters, stashed for the micro-batches in flight
  std::int64_t kept = 0;        // of an update that may be taken back
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t stash = 0;      // activations of the micro-batches in flight
  std::int64_t workspace = 0;  // the rest of the working memory
  std::int64_t program = 0;    // the compiled ops themselves: names, kernels, generated code; an estimate
  std::int64_t total() const {
    return parameters + versions + kept + gradients + optimizer + stash + workspace + program;
  }
};

// The memory that an Executable of these would take, without building it.
MemoryUse memory_use(const Stage& stage, const CompileOptions& options);
// The same with 1, 2, ..., options.slots slots. It is hardly dearer than one.
std::vector<MemoryUse> memory_by_slots(const Stage& stage, CompileOptions options);

}  // namespace rookery
