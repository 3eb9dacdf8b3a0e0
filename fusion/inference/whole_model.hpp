// A whole model in inference, for a number of samples: batch by batch, the last one smaller where they do not
// come out even.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/graph/stage.hpp"
#include "models/graph/state/state_dict.hpp"
#include "models/runtime/executable.hpp"
#include "trainer/feed/sample_source.hpp"

namespace rookery {

struct WholeModel {
  std::vector<std::int64_t> batches;  // their sizes
  Stage stage;
  Executable executable;

  // At least one sample, and `batch` of at least one. DataError when the state is not the graph's.
  WholeModel(const Graph& graph, const StateDict& state, std::int64_t samples, std::int64_t batch);

  // Runs the samples `ids`, as many as it was made for, batch by batch; after each calls `done` with those in
  // it.
  void run(const SampleSource& source, std::span<const std::int64_t> ids,
           const std::function<void(std::span<const std::int64_t> ids, const MicroBatch& part)>& done);
  // An output of the batch that has just run.
  ConstTensorView output(const std::string& value, const MicroBatch& part);
};

}  // namespace rookery
