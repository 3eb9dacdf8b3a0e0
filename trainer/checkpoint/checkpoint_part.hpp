// A checkpoint is everything that a run goes on from: node_data/checkpoints/<step>/ holds a file for each
// stage of the plan that wrote it, <plan id>_<stage>_of_<stages>.safetensors, and the checkpoint is there
// when all of them are. Of several clusters, which hold the same model where one is written, these are the
// parts of cluster 0; those of another, <plan id>_cluster_<cluster>_<stage>_of_<stages>.safetensors, are for
// itself, when the plan goes on: its optimizer may have a state of its own. Where a cluster has lost its own,
// all take over those of one that has not. models/io/FORMAT.md, "Metadata of a checkpoint's part".
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "models/graph/state/state_dict.hpp"
#include "models/io/checkpoint/checked_file.hpp"
#include "models/kernels/choose.hpp"
#include "trainer/progress/run_state.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// The plan and the stage whose parts these are.
struct CheckpointOwner {
  std::filesystem::path node_data;
  std::string plan_id;
  int stage = 0;
  int stages = 1;
  int cluster = 0;
};

// The facts that a part has besides its tensors, which are Executable::training_state() by its names.
struct CheckpointFacts {
  RunState run;
  TrainingSettings settings;
  KernelChoice kernels;  // of the stage's ops
};

std::filesystem::path checkpoints_folder(const std::filesystem::path& node_data);
std::filesystem::path part_path(const CheckpointOwner& owner, std::int64_t step);
// The steps of which this stage has a file, rising.
std::vector<std::int64_t> part_steps(const CheckpointOwner& owner);

// The step that a folder of parts is called by.
std::optional<std::int64_t> step_of_folder(const std::filesystem::path& folder);
struct PartName {
  std::string plan_id;
  int stage = 0;
  int stages = 1;
};
// Reads the file name of a part of cluster 0; nothing for other files.
std::optional<PartName> part_name(const std::filesystem::path& file);

// Makes the folder. The file is there whole or not at all (AtomicFile), after a power cut, too. DataError.
void write_part(const std::filesystem::path& path, const CheckpointOwner& owner, const CheckpointFacts& facts,
                const StateViews& training_state);

// DataError naming the file when it is damaged, of a newer version, or not what its name says: that, too, of
// a folder that is called by a step. One thread.
class PartReader {
 public:
  explicit PartReader(const std::filesystem::path& path);

  const CheckpointFacts& facts() const { return facts_; }
  const CheckedReader& tensors() const { return file_; }
  CheckedReader& tensors() { return file_; }

 private:
  CheckedReader file_;
  CheckpointFacts facts_;
};

}  // namespace rookery
