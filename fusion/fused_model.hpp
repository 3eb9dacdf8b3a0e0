// A whole trained model, put together from what the stages of a run have saved, and its files.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "models/graph/state/state_dict.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "models/zoo/open_model.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

struct FusedModel {
  Graph graph;  // of the whole model, without losses
  StateDict state;
  std::vector<std::string> order;  // of its tensors: as the module of the same layers lists them
  // The versions of the module's layers, as PyTorch counts them.
  std::vector<std::pair<std::string, std::int64_t>> versions;
  StateDict extras;  // what the module's state dict has besides, such as second names of tied parameters
  // model, data, seed, train_fraction, split, loss, step, plan_id, cluster, as text; format
  // ("rookery.state_dict") and version.
  Metadata metadata;
};

// The model of a run with these settings, whose file, where it has one, is in `node_data`, or beside the
// plans that are kept there. ConfigError or DataError as open_model() and choose_trained().
OpenedModel open_trained_model(const TrainingSettings& settings, const std::filesystem::path& node_data);

// All that belongs to `state`, which is the graph's (check_state()); `run` is run_metadata().
FusedModel fused_model(OpenedModel model, const TrainingSettings& settings, StateDict state, Metadata run);
// The same for a graph alone, which no name stands for.
FusedModel fused_model(Graph model, const TrainingSettings& settings, StateDict state, Metadata run);

struct FusedFiles {
  std::filesystem::path safetensors;
  std::filesystem::path pytorch;
  std::filesystem::path onnx;
};

// Writes trained_state_dict.safetensors, trained_state_dict.pt and trained_model.onnx, whose weights are
// those of the first, into `folder`, which is made when it is not there; the .pt has the extras, too.
FusedFiles write_fused(const FusedModel& model, const std::filesystem::path& folder);

}  // namespace rookery
