// One variant of a stage, training or inference, for one micro-batch size: its graph, the type and
// place of every value, the kernel of every op. It is what memory_use() and Executable share. Internal to
// this module.
#pragma once

#include <memory>
#include <vector>

#include "models/graph/passes/memory/recompute.hpp"
#include "models/runtime/compile/compile_options.hpp"
#include "models/runtime/micro_batch.hpp"

namespace rookery {

struct CompiledVariant {
  std::int64_t size = 0;          // samples in the micro-batch
  TrainingGraph training;         // in inference: the forward graph alone
  std::vector<TensorType> types;  // by ValueId
  // By OpId; null for views, and none is prepared. An op and the same op run again (recompute.hpp) have one
  // together.
  std::vector<std::shared_ptr<Kernel>> kernels;
  MemoryPlan plan;
};

// What runs in a micro-batch of any size: fused, in the layouts that the kernels want, with its gradients in
// training.
TrainingGraph program_graph(const Stage& stage, Mode mode, const CompileOptions& options);

// Compiles one variant for any number of slots: only what is recomputed depends on them
// (CompileOptions::slots is not read). Not for several threads at once.
class VariantCompiler {
 public:
  // `graph` is the program_graph() of the mode and outlives this, and so do `options`. `accumulates`: whether
  // a step may have more than one micro-batch.
  VariantCompiler(const TrainingGraph& graph, Mode mode, std::int64_t size, const CompileOptions& options,
                  bool accumulates);

  CompiledVariant variant(int slots);

 private:
  const TrainingGraph& graph_;
  std::int64_t size_;
  std::vector<TensorType> types_;
  std::vector<std::shared_ptr<Kernel>> kernels_;
  std::vector<std::size_t> scratch_;
  MemoryPlan plan_;                            // where nothing is recomputed, or else
  std::unique_ptr<Recomputation> recomputed_;  // which reads the others
};

// The places of the tensors of a set of values in an arena, each aligned and padded to kAlignment.
struct ArenaLayout {
  std::map<ValueId, std::size_t> offsets;
  std::size_t bytes = 0;
};
ArenaLayout lay_out(const Graph& graph, const std::vector<ValueId>& values);

}  // namespace rookery
