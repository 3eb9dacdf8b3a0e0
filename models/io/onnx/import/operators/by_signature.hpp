// Operators that are in a file what they are in a graph: those that need no rule of their own. Internal to
// this module.
#pragma once

#include "models/io/onnx/import/operators/node.hpp"

namespace rookery {

// Takes a node by the signature of its operator (op_signature.hpp): constant inputs become attributes, and
// attributes that change nothing at their values are left out. DataError where there is no such operator, or
// the node has other inputs or attributes.
Operands import_by_signature(GraphImporter& graph, ImportedNode& node);

// Takes attributes out that change nothing at their value: those of newer operator sets, and what a runtime
// may do as it likes.
void drop_idle_attributes(ImportedNode& node);

}  // namespace rookery
