// A node of a foreign file, and what its inputs and attributes are. Internal to this module.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/graph/op_signature.hpp"
#include "models/io/onnx/import/graph/importer.hpp"

namespace rookery {

using Operands = std::vector<Operand>;

struct ImportedNode {
  std::string name;
  std::string type;
  Operands inputs;
  Attributes attributes;             // but for those that are tensors or graphs
  std::vector<std::string> outputs;  // empty where there is none
};

// The input at this position; std::monostate where there is none.
const Operand& input(const ImportedNode& node, std::size_t position);
bool is_there(const ImportedNode& node, std::size_t position);

// An input that is known before training. `what` it is stands in the DataError where it is not.
const Known& known_input(const ImportedNode& node, std::size_t position, const std::string& what);
AtProbes<std::vector<std::int64_t>> integers_at_probes(const ImportedNode& node, std::size_t position,
                                                       const std::string& what);

// Elements as an attribute of this kind, of i64 or i32 or for floats of any type of number; DataError naming
// `what` they are where they do not fit.
Attribute attribute_from(AttributeKind kind, const Tensor& tensor, const std::string& what);
std::vector<std::int64_t> integers_of(const Tensor& tensor, const std::string& what);

// An attribute that is an integer; DataError where it is there with another type.
std::int64_t integer(const ImportedNode& node, const std::string& key, std::int64_t otherwise);

}  // namespace rookery
