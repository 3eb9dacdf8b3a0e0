// ONNX files (IR version 8, opset 17). Weights live in a safetensors file beside the model, which
// the initializers point into as ONNX external data (location, offset, length).
#pragma once

#include <filesystem>
#include <string>

#include "models/graph/initialize.hpp"
#include "models/io/safetensors.hpp"

namespace rookery {

// Writes `graph` for inference as `path` and `state` as `weights` (a file name in the same folder).
// Ops of our own (losses) and what only they use are left out. Both files carry the metadata.
void write_onnx(const std::filesystem::path& path, const std::string& weights, const Graph& graph,
                const StateDict& state, const Metadata& metadata = {});

struct OnnxModel {
  Graph graph;
  StateDict state;
  Metadata metadata;  // that write_onnx was given
};

// Reads what write_onnx wrote. Nothing in the file is trusted: cycles, dangling names, unknown
// operators or attributes, wrong types, external data outside the folder or the file are DataErrors
// naming node and reason.
OnnxModel read_onnx(const std::filesystem::path& path);

}  // namespace rookery
