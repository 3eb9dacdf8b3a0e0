// ONNX's Einsum as ops of a graph. Internal to this module.
#pragma once

#include <vector>

#include "models/io/onnx/import/operators.hpp"

namespace rookery {

// One output. DataError where the equation is wrong or does not fit the inputs.
std::vector<Operand> import_einsum(GraphImporter& graph, ImportedNode& node);

}  // namespace rookery
