// Reads what PyTorch's exporters write beside the graph: which parameters and buffers the module had, and
// which operation of the module a node stands for. They are metadata of nodes and of the graph, which the
// older definition of ONNX that is compiled in does not know; they are read as unknown fields. Internal to
// this module.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
}  // namespace onnx

namespace rookery {

using OnnxMetadata = std::map<std::string, std::string>;
OnnxMetadata metadata_of(const onnx::NodeProto& node);
OnnxMetadata metadata_of(const onnx::GraphProto& graph);

// A parameter, buffer or constant tensor of the exported module, or an input of its forward, which has no
// name.
struct TorchTensor {
  enum class Kind : std::uint8_t { kParameter, kBuffer, kConstant, kInput } kind = Kind::kParameter;
  std::string name;        // in the module: "body.1.weight"
  bool persistent = true;  // is it in the state dict?
};

// By their names in torch.export's program ("p_body_1_weight"). Empty where the file has none.
using TorchSignature = std::map<std::string, TorchTensor>;
TorchSignature signature_of(const onnx::GraphProto& graph);

// The module's names of the tensors that forward changes, as the program's signature says.
std::vector<std::string> changed_tensors(const onnx::GraphProto& graph);

// The operation of the program that a node was made for.
struct TorchNode {
  std::string name;                    // "layer_norm_1"
  std::string target;                  // "torch.ops.aten.layer_norm.default"
  std::vector<std::string> reads;      // names of the program, in order
  std::vector<std::string> arguments;  // by position, as text: "%mean", "[4]", "True"
  std::string module;                  // "layers.0.norm1"; empty in the forward of the module itself
};
// All fields are empty where the node does not say.
TorchNode torch_node(const onnx::NodeProto& node);

// Finds what the optimizer of torch.onnx.export(dynamo=True) has done that training cannot take back: layers
// folded into others, parameters that began equal merged, weights computed with. One text each, with the
// module's names; empty for files of which that is certainly not so.
std::vector<std::string> find_rewrites(const onnx::ModelProto& model);

}  // namespace rookery
