// ONNX files (IR version 8, opset 17). Weights live in safetensors files beside the model, which
// the initializers point into as ONNX external data (location, offset, length).
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/graph/state/state_dict.hpp"
#include "models/io/onnx/module.hpp"
#include "models/io/safetensors/safetensors.hpp"

namespace rookery {

// Writes `graph` for inference as `path` and `state` as `weights` (a file name in the same folder).
// Ops of our own (losses) and what only they use are left out. Both files carry the metadata.
void write_onnx(const std::filesystem::path& path, const std::string& weights, const Graph& graph,
                const StateDict& state, const Metadata& metadata = {});

// By the names of files in the model's folder: what lies where in each.
using WeightsFiles = std::map<std::string, std::map<std::string, TensorExtent>>;
// The same for weights that are written already: every parameter and buffer of the graph is in one of the
// files.
void write_onnx(const std::filesystem::path& path, const WeightsFiles& weights, const Graph& graph,
                const Metadata& metadata);

struct OnnxModel {
  Graph graph;
  StateDict state;
  Metadata metadata;  // that write_onnx was given
  // Files of models/rookery_export.py say these: the module, and tensors of its state dict that the graph
  // does not have.
  std::optional<ModuleDescription> module;
  StateDict extras;
  std::set<std::string> buffers;  // of the module, by the file: names that are no parameters
  // Where it does not, everything that may be a parameter is trained.
  bool says_what_is_trained = true;
  std::vector<std::string> warnings;  // what training may take otherwise than the module meant it
};

// Reads a model of any origin as a graph that can be trained: operator sets 13 to 20, with inputs whose first
// dimension is the batch, open or not. What does not depend on the samples is computed; weights keep their
// names, and those that the file does not have are absent from `state`, with PyTorch's usual initial values
// in the graph. BatchNormalization and Dropout are there as in training, but for files of rookery_export.py,
// where each is as in the module, and what is not trained is fixed. Nothing in the file is trusted.
// DataError with everything that cannot be imported, by node, operator and reason. Files of write_onnx: as
// read_onnx.
OnnxModel import_onnx(const std::filesystem::path& path);

// Reads what write_onnx wrote. Nothing in the file is trusted: cycles, dangling names, unknown
// operators or attributes, wrong types, external data outside the folder or the file are DataErrors
// naming node and reason.
OnnxModel read_onnx(const std::filesystem::path& path);
// The `metadata` of such a file, and the names of the files that it points into, whatever else is wrong with
// it.
struct OnnxHeader {
  Metadata metadata;
  std::set<std::string> weights;
};
OnnxHeader read_onnx_header(const std::filesystem::path& path);

}  // namespace rookery
