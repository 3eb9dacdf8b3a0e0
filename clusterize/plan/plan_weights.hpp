// The initial weights of a plan's stages as files: tensors that lie together on one stage in every cluster
// are one file, which all stages that hold it share. So a plan's weights take room once, however its clusters
// are cut.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/graph/stage.hpp"
#include "models/graph/state/state_dict.hpp"
#include "models/io/onnx/onnx.hpp"

namespace rookery {

constexpr const char* kPlanId = "plan_id";  // in the metadata of all files of a stage

class PlanWeights {
 public:
  // `stages` by cluster. `state` outlives this.
  PlanWeights(const std::vector<std::vector<Stage>>& stages, const StateDict& state, std::string plan_id);

  // Puts the files of a stage into its folder: the first time a file is written, later it is a hard link to
  // that one, or a copy where the file system has no links; no program writes into one of them. DataError
  // when the state lacks a tensor or a file cannot be written.
  WeightsFiles put(const std::filesystem::path& folder, const Graph& stage);

  // What every file carries besides its tensors: the plan's id.
  const Metadata& metadata() const { return metadata_; }

 private:
  using Places = std::vector<std::pair<int, int>>;  // clusters and stages

  // The stage's tensors, those of a file together, in the order in which the stage has them.
  std::vector<std::vector<std::string>> files_of(const Graph& stage) const;

  const StateDict& state_;
  Metadata metadata_;
  std::map<std::string, Places> places_;             // of every tensor
  std::map<Places, std::filesystem::path> written_;  // where a file is for the first time
};

// Is this the name of a file that put() makes?
bool is_weights_file(const std::string& name);

}  // namespace rookery
