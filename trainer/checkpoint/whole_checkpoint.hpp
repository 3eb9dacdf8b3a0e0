// Checkpoints as a whole: found in a node_data, whatever plans wrote them, and read as the state of one
// model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/tensor/tensor.hpp"
#include "trainer/checkpoint/checkpoint_part.hpp"

namespace rookery {

// The files of one checkpoint that a folder has, by their names.
struct CheckpointFiles {
  std::filesystem::path folder;
  std::string plan_id;
  std::vector<std::filesystem::path> parts;  // by stage; empty where there is none
  // When the newest of them was; the clock's epoch lies in the future.
  std::filesystem::file_time_type written = std::filesystem::file_time_type::min();

  bool is_complete() const;
  // "stages 0 and 2 of 3", of those that are there or that are not.
  std::string stages_text(bool there) const;
};

// Those in one folder of parts, wherever that is: one a plan, the newest first.
std::vector<CheckpointFiles> checkpoints_in(const std::filesystem::path& folder);
// All in `node_data`/checkpoints: those of the plan that has written last first, and of each plan the highest
// step.
std::vector<CheckpointFiles> find_checkpoints(const std::filesystem::path& node_data);

// Those that a user means by a name: a step of those in `node_data`, or a folder of parts; all in `node_data`
// for an empty name. The newest first. ConfigError where there are none.
std::vector<CheckpointFiles> checkpoints_named(const std::filesystem::path& node_data,
                                               const std::string& step_or_folder);

// One checkpoint, with all tensors of all stages by their global names. A parameter that stages share is that
// of the first one, which owns it. One thread.
class WholeCheckpoint {
 public:
  // DataError when a part is missing or damaged, or is of another step or plan than the others. Elements are
  // checked as they are read.
  explicit WholeCheckpoint(const CheckpointFiles& files);

  const CheckpointFiles& files() const { return files_; }
  const std::string& plan_id() const { return files_.plan_id; }
  // The Leaf's, which knows most.
  const RunState& run() const { return parts_.back().facts().run; }
  const TrainingSettings& settings() const { return parts_.front().facts().settings; }
  // The kernels of all stages' ops.
  const KernelChoice& kernels() const { return kernels_; }

  std::map<std::string, TensorType> types() const;
  // A tensor of types(). DataError when it is damaged.
  Tensor read(const std::string& name);
  // Reads all of them, and keeps none. DataError.
  void check_all();

 private:
  CheckpointFiles files_;
  std::vector<PartReader> parts_;                  // by stage
  std::map<std::string, std::size_t> stage_with_;  // each tensor
  KernelChoice kernels_;
};

// The newest of checkpoints_named() that is whole; those that are not are told in the log. Every element has
// been checked. ConfigError where there are none; DataError where none is whole.
WholeCheckpoint open_checkpoint(const std::filesystem::path& node_data, const std::string& step_or_folder);

}  // namespace rookery
