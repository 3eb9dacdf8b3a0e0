#include "fusion/fused_model.hpp"

#include <algorithm>
#include <utility>

#include "models/base/files/files.hpp"
#include "models/io/onnx/onnx.hpp"
#include "models/io/pytorch/pytorch.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {
namespace {

std::vector<std::string> state_order(const Graph& graph) {
  std::vector<std::string> order;
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::kParameter || value.kind == ValueKind::kBuffer) order.push_back(value.name);
  }
  return order;
}

// A plan that clusterize keeps aside, in node_data/kept/<plan id>, leaves a model's file where it is.
std::filesystem::path models_folder(const std::filesystem::path& node_data) {
  const std::filesystem::path folder =
      (std::filesystem::absolute(node_data) / "").lexically_normal().parent_path();
  const bool is_kept = folder.parent_path().filename() == "kept";
  return is_kept ? folder.parent_path().parent_path() : node_data;
}

// All that the module's state dict has, in its order.
void take_module(FusedModel& fused, const ModuleDescription& module) {
  for (const auto& [other, first] : module.tied) {
    if (const auto found = fused.extras.find(first); found != fused.extras.end())
      fused.extras.emplace(other, found->second.clone());
  }
  fused.order = module.state_dict;
  fused.versions = module.versions;
}

}  // namespace

OpenedModel open_trained_model(const TrainingSettings& settings, const std::filesystem::path& node_data) {
  OpenedModel model = open_model(settings.model, models_folder(node_data));
  choose_trained(model, settings.frozen, settings.trained);
  return model;
}

FusedModel fused_model(Graph model, const TrainingSettings& settings, StateDict state, Metadata run) {
  FusedModel fused{.graph = std::move(model), .state = std::move(state), .metadata = std::move(run)};
  fused.order = state_order(fused.graph);
  for (const auto& [second, first] : settings.tied) {
    if (const auto found = fused.state.find(first); found != fused.state.end())
      fused.extras.emplace(second, found->second.clone());
  }
  fused.metadata.emplace("format", "rookery.state_dict");
  fused.metadata.emplace("version", "1");
  return fused;
}

FusedModel fused_model(OpenedModel model, const TrainingSettings& settings, StateDict state, Metadata run) {
  FusedModel fused = fused_model(std::move(model.graph), settings, std::move(state), std::move(run));
  fused.extras.merge(reference_extras(settings.model, fused.state));
  fused.extras.merge(std::move(model.extras));
  if (model.module) take_module(fused, *model.module);
  return fused;
}

FusedFiles write_fused(const FusedModel& model, const std::filesystem::path& folder) {
  make_directories(folder);
  FusedFiles files{.safetensors = folder / "trained_state_dict.safetensors",
                   .pytorch = folder / "trained_state_dict.pt",
                   .onnx = folder / "trained_model.onnx"};
  write_onnx(files.onnx, files.safetensors.filename().string(), model.graph, model.state, model.metadata);
  StateViews all = views_of(model.state);
  all.merge(views_of(model.extras));
  std::vector<std::string> order = model.order;
  for (const auto& [name, tensor] : model.extras) {
    if (std::ranges::count(order, name) == 0) order.push_back(name);
  }
  write_pytorch(files.pytorch, all, order, model.versions);
  return files;
}

}  // namespace rookery
