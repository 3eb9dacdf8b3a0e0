// A stage's weights after a run are in trained.safetensors beside the stage.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "clusterize/plan/node_metadata.hpp"
#include "models/base/files/files.hpp"
#include "models/graph/state/state_dict.hpp"
#include "models/io/safetensors/safetensors.hpp"

namespace rookery {

// The metadata by which weights name the run that they are from: plan_id, cluster, step, and the settings'
// model, data, seed, train_fraction, split and loss.
Metadata run_metadata(const TrainingSettings& settings, const std::string& plan_id, int cluster,
                      std::int64_t step);

// A trained submodel: a checked file with metadata format ("rookery.trained"), version, node, stage, stages,
// those of its run, and sample_digest, of the samples trained on, where given.
void write_trained(const std::filesystem::path& node_data, const NodeMetadata& node, const StateViews& state,
                   std::int64_t step, const std::string& sample_digest = {});
void write_trained(const std::filesystem::path& node_data, const NodeMetadata& node, const StateDict& state,
                   std::int64_t step, const std::string& sample_digest = {});

// DataError naming the file when it is none or of a newer version, and the tensor when that is damaged.
// Version 1 had no checksums.
SafetensorsFile read_trained(const std::filesystem::path& path);

// Writes one, with its room on the disk and its descriptor taken before training. One thread.
class TrainedFile {
 public:
  // `state` has the tensors that are to come, of any values, and perhaps more. DataError when the stage's
  // folder cannot be written or has no room for them.
  TrainedFile(const std::filesystem::path& node_data, const NodeMetadata& node, const StateViews& state);

  // Writes them; when that fails once more in the same place, and then as
  // trained_<node>_<plan id>.safetensors into the first of the folders `elsewhere` that takes them. DataError
  // when they are not in their place: where they are instead and why, or why they are nowhere.
  void write(const StateViews& state, std::int64_t step, const std::string& sample_digest,
             const std::vector<std::filesystem::path>& elsewhere);

 private:
  std::filesystem::path node_data_;
  NodeMetadata node_;
  std::optional<AtomicFile> file_;
};

}  // namespace rookery
