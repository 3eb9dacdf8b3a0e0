// Takes pieces of an ONNX file as our types. Both readers (read.cpp, import/import.cpp) are made of these.
// Nothing that comes in is trusted: DataError for what is broken. Internal to this module.
#pragma once

#include <map>
#include <string>

#include "models/graph/graph.hpp"
#include "models/io/onnx/format/external.hpp"
#include "models/io/onnx/format/format.hpp"

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
class TensorProto;
}  // namespace onnx

namespace rookery {

onnx::ModelProto parse_onnx(const std::string& bytes);

// "node "conv1" ("Conv")", for messages.
std::string node_name(const onnx::NodeProto& node);

// A node reads `name`, which nothing before it has made: DataError that says why.
[[noreturn]] void fail_dangling(const onnx::GraphProto& graph, const std::string& name);

// A list of texts as one, with commas between them.
Attribute attribute_from(const onnx::AttributeProto& attribute);
DType checked_dtype(std::int64_t type);
// The attributes of a node, which must all be known, of these kinds.
std::map<std::string, Attribute> attributes_from(const onnx::NodeProto& node,
                                                 const std::map<std::string, AttributeKind>& known);

// Whether a tensor of this type can be an attribute of this kind, and the attribute that it is.
bool fits(AttributeKind kind, const TensorType& type);
Attribute attribute_of(AttributeKind kind, const Tensor& tensor);

// The elements of a tensor whose dimensions `type` has been made of; memory is taken after the checks.
Tensor tensor_from(const onnx::TensorProto& proto, const TensorType& type, ExternalData& external);

}  // namespace rookery
