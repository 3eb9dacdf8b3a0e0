// Finds what a Reshape of one batch size is at any other. Internal to this module.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/io/onnx/import/graph/known.hpp"
#include "models/tensor/tensor.hpp"

namespace rookery {

// The shape attribute (ops/shape_ops.cpp) of a Reshape of `from` whose shape input holds `to` at the probes:
// 0 or -1 where the batch is. With `fixed` the file was exported for this batch size alone, that of the first
// probe: a `to` that is the same everywhere holds for it only, and the batch stays where it is among the
// elements. DataError where there is no such attribute.
std::vector<std::int64_t> shape_for_any_batch(const AtProbes<Shape>& from,
                                              const AtProbes<std::vector<std::int64_t>>& to, bool allow_zero,
                                              std::optional<std::int64_t> fixed);

// The only axis that differs between the probes; nothing where none or several do.
std::optional<int> batch_axis(const AtProbes<Shape>& shapes);

}  // namespace rookery
