// What BatchNormalization and its gradient have in common in both layouts of images.
#pragma once

#include "models/graph/ops/batch_norm.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"
#include "models/kernels/simd/loops/loops.hpp"

namespace rookery::simd {

// What is added from this element on; nullptr: nothing.
inline const float* added_at(const Arguments& args, Index element) {
  const float* const added = args.in(kBatchNormAdded);
  return added == nullptr ? nullptr : added + element;
}

// dX = (dY - mean_dy - (X - mean) slope) factor
struct ChannelGradient {
  float mean_dy, slope, factor;
};

// Of channel c, from the sums over it of dY and of dY (X - mean). Writes the gradients of scale and bias,
// where they are wanted.
inline ChannelGradient channel_gradient(const BatchNormShape& s, const Arguments& args, Index c, float sum,
                                        float product) {
  const auto count = static_cast<float>(s.batch * s.plane);
  const float inverse = s.inverse(args.in(4)[c]);
  const float dscale = product * inverse;
  if (args.out(1) != nullptr) args.out(1)[c] = dscale;
  if (args.out(2) != nullptr) args.out(2)[c] = sum;
  return {.mean_dy = s.by_running ? 0 : sum / count,
          .slope = s.by_running ? 0 : dscale * inverse / count,
          .factor = args.in(2)[c] * inverse};
}

}  // namespace rookery::simd
