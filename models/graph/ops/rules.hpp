// The rules that several families of operators share. Internal to this module.
#pragma once

#include <span>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"

namespace rookery {

inline void expect_one(std::span<const TensorType> inputs) {
  if (inputs.size() != 1) throw ConfigError(fmt::format("has {} inputs, not 1", inputs.size()));
}

// The rule by which the gradient of input 0 is what an op `type` makes of dY alone.
inline auto gradient_by(const char* type) {
  return [type](GradientBuilder& builder, const Op& op) {
    const ValueId dy = builder.gradient_of(op.outputs[0]);
    if (dy == kNoValue) return;
    builder.add(builder.phase_for(op.inputs[0]), op, type, {dy}, {op.inputs[0]});
  };
}

// OpDefinition::is_view of an op that always is one.
inline bool always_view(const Op&) {
  return true;
}

}  // namespace rookery
