// A trained model in any of the forms that this project writes or reads.
#pragma once

#include <filesystem>
#include <optional>

#include "models/graph/state/state_dict.hpp"
#include "models/io/safetensors/safetensors.hpp"

namespace rookery {

struct TrainedModel {
  std::optional<Graph> graph;  // where the form has it, without losses
  StateDict state;
  Metadata metadata;  // of the run, where the form has any; see fused_model.hpp
  bool is_checkpoint = false;
};

// `path` is a state dict (.safetensors, .pt), a model (.onnx), the folder of a
// checkpoint, or a part of a trained cluster: the folder cluster_C of a node_data, that of one of its stages,
// or the trained.safetensors in it. A stage alone is no model: its fellows are taken from beside it, and the
// plan from the node_data that it is in. A state dict may also have an address (trainer/storage/place.hpp),
// by which it is fetched; what is called otherwise in a bucket is a checkpoint, or the place of several, of
// which the newest is taken. A checkpoint's model, where that is a file, is looked for in `node_data`.
// DataError or ConfigError naming what is missing.
TrainedModel read_trained_model(const std::filesystem::path& path, const std::filesystem::path& node_data);

}  // namespace rookery
