// A whole model in inference, for a number of samples: batch by batch, the last one smaller where they do not
// come out even.
#pragma once

#include <vector>

#include "models/graph/stage.hpp"
#include "models/graph/state/state_dict.hpp"
#include "models/runtime/executable.hpp"

namespace rookery {

struct WholeModel {
  std::vector<std::int64_t> batches;  // their sizes
  Stage stage;
  Executable executable;

  // At least one sample, and `batch` of at least one. DataError when the state is not the graph's.
  WholeModel(const Graph& graph, const StateDict& state, std::int64_t samples, std::int64_t batch);
};

}  // namespace rookery
