// Models wherever they come from: the zoo, or a file that PyTorch exported.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/graph/state/state_dict.hpp"
#include "models/io/onnx/module.hpp"

namespace rookery {

struct OpenedModel {
  Graph graph;
  StateDict weights;  // that the file has
  // A file of rookery_export.py has these besides: the module, and tensors of its state dict that the graph
  // does not have.
  std::optional<ModuleDescription> module;
  StateDict extras;
  // See OnnxModel.
  std::set<std::string> buffers;
  bool says_what_is_trained = true;
  std::vector<std::string> warnings;
};

// The graph's parameters, fixed and trained as train.json says.
void choose_trained(OpenedModel& model, const std::vector<std::string>& frozen,
                    const std::vector<std::string>& trained);

// Takes out of a state dict of a model what its graph does not have, `extras` among it; DataError where it is
// not what the file has, because the graph was made with that.
void remove_extras(const std::optional<ModuleDescription>& module, const StateDict& extras, StateDict& state);

// A name of the zoo, or the path of an .onnx file, which is below `node_data` where it is relative.
// ConfigError or DataError as zoo_model() and import_onnx().
OpenedModel open_model(const std::string& name, const std::filesystem::path& node_data);

// The name that train.json has for a model that a command line names: paths, which are the current folder's
// there, become those of `node_data`, or absolute ones where they lie elsewhere.
std::string model_name_in(const std::filesystem::path& node_data, const std::string& given);

}  // namespace rookery
