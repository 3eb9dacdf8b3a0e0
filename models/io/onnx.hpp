// ONNX files (IR version 8, opset 17). Weights live in a safetensors file beside the model, which
// the initializers point into as ONNX external data (location, offset, length).
#pragma once

#include <filesystem>
#include <string>

#include "models/graph/initialize.hpp"

namespace rookery {

// Writes `graph` for inference as `path` and `state` as `weights` (a file name in the same folder).
// Ops of our own (losses) and what only they use are left out.
void write_onnx(const std::filesystem::path& path, const std::string& weights, const Graph& graph,
                const StateDict& state);

struct OnnxModel {
  Graph graph;
  StateDict state;
};

// Reads what write_onnx wrote. Nothing in the file is trusted: cycles, dangling names, unknown
// operators or attributes, wrong types, external data outside the folder or the file are DataErrors
// naming node and reason.
OnnxModel read_onnx(const std::filesystem::path& path);

}  // namespace rookery
