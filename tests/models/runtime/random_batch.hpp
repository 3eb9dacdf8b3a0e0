// A stage of a model in whole, compiled for one size of micro-batch, and random batches for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "models/base/rng.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/runtime/executable.hpp"
#include "tests/models/runtime/test_processor.hpp"
#include "tests/models/runtime/trained_models.hpp"

namespace rookery {

constexpr std::uint64_t kSeed = 7;

struct Batch {
  Tensor data, labels, ids;
};

inline Batch random_batch(const Graph& graph, std::int64_t size, std::uint64_t stream) {
  const std::vector<TensorType> types = graph.types(size);
  const auto make = [&](const char* name) { return Tensor(types[graph.at(name)]); };
  Batch batch{make("input"), make(kLabels), make(kSampleIds)};
  CounterRng rng(rng_key(kSeed, "batch"), stream);
  for (float& x : batch.data.as<float>()) x = 2 * rng.next_float() - 1;
  for (std::int64_t& label : batch.labels.as<std::int64_t>()) label = rng.next_below(5);
  return batch;
}

inline void fill(Executable& executable, const MicroBatch& micro_batch, const Batch& batch) {
  copy(batch.data.view(), executable.input(0, micro_batch));
  copy(batch.labels.view(), executable.input(1, micro_batch));
  copy(batch.ids.view(), executable.input(2, micro_batch));
}

inline Stage whole(const Graph& graph) {
  const std::vector<OpId> begins{0};
  return std::move(cut(graph, begins).front());
}

inline CompileOptions options_for(const Graph& graph, std::int64_t size) {
  return {.training_sizes = {size},
          .inference_sizes = {size},
          .kernels = choose_kernels(graph, size),
          .seed = kSeed,
          .optimizer = {},
          .processor = &test_processor()};
}

inline float loss_of(const Executable& executable, const MicroBatch& micro_batch) {
  const auto& outputs = executable.stage().outputs;
  const auto loss = std::ranges::find(outputs, kLoss, &StageOutput::value);
  const auto i = static_cast<std::size_t>(loss - outputs.begin());
  return HostTensor(executable.output(i, micro_batch)).view().as<float>()[0];
}

}  // namespace rookery
