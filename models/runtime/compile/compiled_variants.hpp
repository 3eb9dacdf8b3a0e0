// The variants of a stage for all sizes of micro-batches, and what they take together. Internal to this
// module.
#pragma once

#include <vector>

#include "models/runtime/compile/compiled_variant.hpp"
#include "models/runtime/compile/parameter_layout.hpp"

namespace rookery {

struct CompiledVariants {
  std::vector<CompiledVariant> training;
  std::vector<CompiledVariant> inference;

  ParameterLayout parameter_layout(const Stage& stage) const;
  MemoryUse memory(const Stage& stage, const CompileOptions& options) const;
  // What an update that may be taken back changes, and forwards after it.
  std::size_t kept_bytes(const Stage& stage, const CompileOptions& options) const;
  // The stashes of all slots, and what is needed at the same time as the fullest of them.
  std::size_t working_bytes(const CompileOptions& options) const;
};

// Compiles the variants of a stage for any number of slots. Not for several threads at once.
class StageCompiler {
 public:
  // CompileOptions::slots is not read.
  StageCompiler(const Stage& stage, const CompileOptions& options);
  StageCompiler(const StageCompiler&) = delete;
  StageCompiler& operator=(const StageCompiler&) = delete;

  CompiledVariants variants(int slots);

 private:
  const CompileOptions options_;
  const TrainingGraph training_, inference_;  // which the variants read
  std::vector<VariantCompiler> training_variants_, inference_variants_;
};

CompiledVariants compile_variants(const Stage& stage, const CompileOptions& options);

// The bytes of a slot's stash: micro-batches of several sizes are in flight at once, so that a slot has room
// for the largest one and slots lie apart whatever is in them.
std::size_t slot_bytes(const std::vector<CompiledVariant>& variants);

}  // namespace rookery
