// Puts the trained submodels of one cluster together again.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/graph/state/state_dict.hpp"
#include "models/io/safetensors/safetensors.hpp"

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

// Reads the submodel of every node of the cluster, and checks that together they are the model of
// the plan in `node_data`, whole and at one step. ConfigError when there is no such plan or
// cluster; else DataError listing everything that is wrong, by node and tensor: submodels that are
// missing, broken, of another plan, or of different age; tensors that are missing, there twice, or
// of another type than the model's.
FusedModel fuse_cluster(const std::filesystem::path& node_data, int cluster);
// The same for a model of one's own, which was planned without a name that stands for it.
FusedModel fuse_cluster(const std::filesystem::path& node_data, int cluster, Graph model);

struct FusedFiles {
  std::filesystem::path safetensors;
  std::filesystem::path pytorch;
  std::filesystem::path onnx;
};

// Writes trained_state_dict.safetensors, trained_state_dict.pt and trained_model.onnx, whose weights are
// those of the first, into `folder`; the .pt has the extras, too, which is made when it is not there.
FusedFiles write_fused(const FusedModel& model, const std::filesystem::path& folder);

}  // namespace rookery
