#include "models/zoo/open_model.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/passes/freeze.hpp"
#include "models/graph/passes/recognize/recognize.hpp"
#include "models/io/onnx/onnx.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {
namespace {

bool is_file(const std::string& name) {
  return name.ends_with(".onnx");
}

}  // namespace

OpenedModel open_model(const std::string& name, const std::filesystem::path& node_data) {
  if (!is_file(name)) {
    return {
        .graph = zoo_model(name), .weights = {}, .module = {}, .extras = {}, .buffers = {}, .warnings = {}};
  }
  OnnxModel model = import_onnx(node_data / name);
  return {.graph = recognize_recurrent(recognize_linear(recognize_layers(model.graph))),
          .weights = std::move(model.state),
          .module = std::move(model.module),
          .extras = std::move(model.extras),
          .buffers = std::move(model.buffers),
          .says_what_is_trained = model.says_what_is_trained,
          .warnings = std::move(model.warnings)};
}

void choose_trained(OpenedModel& model, const std::vector<std::string>& frozen,
                    const std::vector<std::string>& trained) {
  choose_trained(model.graph, frozen, trained, model.buffers);
}

void remove_extras(const std::optional<ModuleDescription>& module, const StateDict& extras,
                   StateDict& state) {
  constexpr const char* kCounter = ".num_batches_tracked";
  for (const auto& [name, tensor] : extras) {
    const auto given = state.find(name);
    if (given == state.end()) continue;
    const bool is_same = given->second.type() == tensor.type() &&
                         std::ranges::equal(given->second.view().bytes(), tensor.view().bytes());
    if (!is_same && !name.ends_with(kCounter)) {
      throw DataError(
          fmt::format("'{}' is another than in the model's file, which has it as a constant: export the "
                      "module anew with this state",
                      name));
    }
    state.erase(given);
  }
  if (!module) return;
  for (const auto& [other, first] : module->tied) state.erase(other);
}

std::string model_name_in(const std::filesystem::path& node_data, const std::string& given) {
  if (!is_file(given)) return given;
  const std::filesystem::path path = std::filesystem::absolute(given).lexically_normal();
  const std::filesystem::path below =
      path.lexically_relative(std::filesystem::absolute(node_data).lexically_normal());
  return below.empty() || *below.begin() == ".." ? path.string() : below.string();
}

}  // namespace rookery
