// Takes the operators of ONNX's operator sets 13 to 20 as ops of a graph, whose attributes are those of set
// 17 (models/graph/op_definition.hpp). Internal to this module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/io/onnx/import/operators/node.hpp"

namespace rookery {

constexpr std::int64_t kOldestOpset = 13;
constexpr std::int64_t kNewestOpset = 20;

// Whether there is an op for it, or it is computed where its inputs are known.
bool is_supported(const std::string& type);

// The result of a ConstantOfShape, full of one element; without one, of 0.0F.
Operand import_filled(const ImportedNode& node, const std::optional<Tensor>& element);

// Adds it to the graph; what its outputs are, in their order, fewer where a graph does not have the last of
// them. DataError or ConfigError with the reason where it cannot be imported.
std::vector<Operand> import_node(GraphImporter& graph, ImportedNode node);

// Adds a node of our own domain: Detach or Embedding.
std::vector<Operand> import_own(GraphImporter& graph, ImportedNode node);

}  // namespace rookery
