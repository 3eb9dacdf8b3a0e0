// The forms of a stage for all sizes of micro-batches, and what they take together. Internal to this module.
#pragma once

#include <vector>

#include "models/runtime/compiled.hpp"
#include "models/runtime/parameter_layout.hpp"

namespace rookery {

struct Forms {
  std::vector<CompiledForm> training;
  std::vector<CompiledForm> inference;

  Forms(const Stage& stage, const CompileOptions& options);

  ParameterLayout parameter_layout(const Stage& stage) const;
  MemoryUse memory(const Stage& stage, const CompileOptions& options) const;
};

// Micro-batches of several sizes are in flight at once: a slot has room for the largest stash, so
// that slots lie apart whatever is in them.
std::size_t slot_bytes(const std::vector<CompiledForm>& forms);

}  // namespace rookery
