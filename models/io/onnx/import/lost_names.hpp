// Weights that an exporter computed with and so made up names for. Those of linear layers, which it turned,
// get the names of the module's parameters back. Internal to this module.
#pragma once

#include <map>
#include <string>

#include "models/io/onnx/import/graph/importer.hpp"
#include "models/io/onnx/import/needed.hpp"

namespace rookery {

// The name of the parameter that a node reads, turned, as the weight at this position: by the bias that is
// added, which keeps its name, or by the node's own name. `weights` has the types of all weights by name.
// DataError where the node is no linear layer, its name does not say, or another weight has that name.
std::string parameter_of_linear(const onnx::NodeProto& node, std::size_t position, const Weight& weight,
                                const NeededNames& needed, const std::map<std::string, TensorType>& weights);

// DataError where one of these operands is the same parameter, as far as its elements say: a tied one would
// become two.
void check_is_no_copy(const Weight& weight, const std::map<std::string, Operand>& operands);

// The parameter [out, in] that a file has as [in, out].
Weight turned(const Weight& weight, const std::string& name);

}  // namespace rookery
