// Reads the description that models/rookery_export.py writes into a file of the module that it exports, for
// which ONNX has no place.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace onnx {
class ModelProto;
}

namespace rookery {

// Names are those of the module's state dict; of tied tensors the first.
struct ModuleDescription {
  std::map<std::string, bool> parameters;                      // is it trained?
  std::map<std::string, bool> buffers;                         // is it persistent, that is in the state dict?
  std::map<std::string, std::string> tied;                     // other names of a tensor -> its first
  std::vector<std::string> state_dict;                         // all names, in its order
  std::vector<std::pair<std::string, std::int64_t>> versions;  // of its layers, as in _metadata
  bool operator==(const ModuleDescription&) const = default;
};

// The description in a file; nothing where it has none. DataError where it is broken or of a newer version.
std::optional<ModuleDescription> module_description(const onnx::ModelProto& model);

}  // namespace rookery
