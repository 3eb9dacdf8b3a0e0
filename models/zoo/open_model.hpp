// Models wherever they come from: the zoo, or a file that PyTorch exported.
#pragma once

#include <filesystem>
#include <string>

#include "models/graph/initialize.hpp"

namespace rookery {

struct OpenedModel {
  Graph graph;
  StateDict weights;  // that the file has
};

// A name of the zoo, or the path of an .onnx file, which is below `node_data` where it is relative.
// ConfigError or DataError as zoo_model() and import_onnx().
OpenedModel open_model(const std::string& name, const std::filesystem::path& node_data);

// How train.json names a model that a command line names: paths, which are the current folder's there, become
// those of `node_data`, or absolute ones where they lie elsewhere.
std::string model_name_in(const std::filesystem::path& node_data, const std::string& given);

}  // namespace rookery
