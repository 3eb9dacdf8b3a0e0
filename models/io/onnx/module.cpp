#include "models/io/onnx/module.hpp"

#include <onnx/onnx_pb.h>

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

constexpr const char* kKey = "rookery_module";
constexpr int kModuleVersion = 1;

void check_names(const ModuleDescription& module) {
  for (const auto& [name, trained] : module.parameters) in_quotes(name);
  for (const auto& [name, persistent] : module.buffers) {
    if (module.parameters.contains(name))
      throw DataError(fmt::format("{} is a parameter and a buffer", in_quotes(name)));
  }
  for (const auto& [other, first] : module.tied) {
    if (!module.parameters.contains(first) && !module.buffers.contains(first))
      throw DataError(fmt::format("{} is tied to {}, which is no tensor of the module", in_quotes(other),
                                  in_quotes(first)));
    if (module.parameters.contains(other) || module.buffers.contains(other))
      throw DataError(fmt::format("{} is tied and a tensor of its own", in_quotes(other)));
  }
  for (const std::string& name : module.state_dict) {
    if (!module.parameters.contains(name) && !module.buffers.contains(name) && !module.tied.contains(name))
      throw DataError(fmt::format("{} of the state dict is no tensor of the module", in_quotes(name)));
  }
}

}  // namespace

std::optional<ModuleDescription> module_description(const onnx::ModelProto& model) {
  const auto found =
      std::ranges::find(model.metadata_props(), kKey, [](const auto& entry) { return entry.key(); });
  if (found == model.metadata_props().end()) return std::nullopt;
  return with_context(fmt::format("metadata {}", in_quotes(kKey)), [&] {
    ModuleDescription module;
    try {
      const nlohmann::ordered_json json = nlohmann::ordered_json::parse(found->value());
      if (const int version = integer_from<int>(json.at("version")); version != kModuleVersion) {
        throw DataError(
            fmt::format("version {}, this program knows {}: use a newer Rookery, or its "
                        "rookery_export.py",
                        version, kModuleVersion));
      }
      json.at("parameters").get_to(module.parameters);
      json.at("buffers").get_to(module.buffers);
      json.at("tied").get_to(module.tied);
      json.at("state_dict").get_to(module.state_dict);
      for (const auto& [name, version] : json.at("versions").items()) {
        if (!version.is_null()) module.versions.emplace_back(name, integer_from<std::int64_t>(version));
      }
    } catch (const nlohmann::ordered_json::exception& error) {
      throw DataError(fmt::format("is broken: {}", error.what()));
    }
    check_names(module);
    return std::optional(std::move(module));
  });
}

}  // namespace rookery
