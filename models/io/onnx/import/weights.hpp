// Reads the weights of a foreign file, and draws those that it does not have. Internal to this module.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "models/io/onnx/format/external.hpp"
#include "models/io/onnx/import/graph/importer.hpp"

namespace onnx {
class GraphProto;
class NodeProto;
class TensorProto;
class ValueInfoProto;
}  // namespace onnx

namespace rookery {

// The dtype and the dimensions of an input, -1 where one is open; DataError where it is no such tensor.
TensorType type_of_input(const onnx::ValueInfoProto& input);

// The elements of a tensor, in the file or beside it.
Tensor read_tensor(const onnx::TensorProto& proto, ExternalData& external);

// The inputs that are parameters without data (export_params=False): those that layers read where their
// weights are, and when there is one, all that are called like a module's.
std::set<std::string> parameters_among_inputs(const onnx::GraphProto& graph);

// PyTorch's usual initial values of parameter `name`: of linear layers and convolutions uniform by fan-in, of
// recurrent layers uniform by the size of their state, of norms 1 and 0, of embeddings normal, of slopes
// 0.25. `readers` are the operators that read it as their weight, `all` has others' types by name.
Initializer usual_initializer(const std::string& name, const Shape& shape,
                              const std::set<std::string>& readers,
                              const std::map<std::string, TensorType>& all);

}  // namespace rookery
