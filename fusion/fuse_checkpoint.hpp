// The model of a checkpoint, as it stands at that step of a run.
#pragma once

#include <filesystem>

#include "fusion/fused_model.hpp"
#include "trainer/checkpoint/whole_checkpoint.hpp"

namespace rookery {

// Makes what fuse_cluster() would have made, had the run ended there; needs nothing of the plan. A model that
// is a file is looked for in `node_data`. ConfigError or DataError as open_trained_model(); DataError for
// tensors that are damaged or not the model's.
FusedModel fuse_checkpoint(WholeCheckpoint& checkpoint, const std::filesystem::path& node_data);
// The same for a model of one's own, which was planned without a name that stands for it.
FusedModel fuse_checkpoint(WholeCheckpoint& checkpoint, Graph model);

}  // namespace rookery
