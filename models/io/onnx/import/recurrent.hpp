// ONNX's recurrent layers as ops of a graph. Internal to this module.
#pragma once

#include <vector>

#include "models/io/onnx/import/operators.hpp"

namespace rookery {

// LSTM, GRU, RNN. DataError naming what is not supported.
std::vector<Operand> import_recurrent(GraphImporter& graph, ImportedNode& node);

}  // namespace rookery
