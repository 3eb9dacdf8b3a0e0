// The rules of operators that differ in a file from the op that a graph has, by families, each in the file of
// its name; operators.cpp puts them together. Internal to this module.
#pragma once

#include <map>
#include <string>

#include "models/io/onnx/import/operators/node.hpp"

namespace rookery {

// A rule adds a node to the graph and gives back what its outputs are. DataError with the reason where it
// cannot.
using Import = Operands (*)(GraphImporter&, ImportedNode&);
using ImportTable = std::map<std::string, Import>;

ImportTable einsum_imports();     // Einsum
ImportTable function_imports();   // reductions, Pow, Reciprocal, Mish, …
ImportTable layer_imports();      // BatchNormalization, Dropout, Conv, …
ImportTable recurrent_imports();  // LSTM, GRU, RNN
ImportTable shape_imports();      // Reshape, Split, sequences, …

}  // namespace rookery
