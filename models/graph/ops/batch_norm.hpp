// BatchNormalization: the order of its inputs, which its rule, its kernels' callers and the files share, and
// what its statistics are taken of.
#pragma once

#include <cstddef>
#include <cstdint>

#include "models/graph/graph.hpp"

namespace rookery {

// Positions among the inputs.
enum BatchNormInput : std::size_t {
  kBatchNormX,
  kBatchNormScale,
  kBatchNormBias,
  kBatchNormMean,
  kBatchNormVariance,
  kBatchNormTracked,  // num_batches_tracked, which ONNX does not have
  kBatchNormAdded,    // what is added to the result, before an activation; of passes/fuse.hpp alone
};

// Does training normalise by the statistics of each micro-batch anywhere?
bool uses_batch_statistics(const Graph& graph);
// Samples of a micro-batch; with fewer it trains worse (arXiv 1803.08494, figure 5).
constexpr std::int64_t kLeastStatistics = 16;

}  // namespace rookery
