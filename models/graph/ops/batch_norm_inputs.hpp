// The inputs of BatchNormalization, whose order its rule, its kernels' callers and the files share.
#pragma once

#include <cstddef>

namespace rookery {

// Positions among the inputs.
enum BatchNormInput : std::size_t {
  kBatchNormX,
  kBatchNormScale,
  kBatchNormBias,
  kBatchNormMean,
  kBatchNormVariance,
  kBatchNormTracked,  // num_batches_tracked, which ONNX does not have
};

}  // namespace rookery
