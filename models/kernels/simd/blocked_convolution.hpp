// Convolutions on images in blocks, by the algorithms that a request may name (KernelRequest::variant). All
// return nullptr for a convolution that they do not serve. Internal to this back end.
#pragma once

#include <cstdint>
#include <memory>

#include "models/kernels/kernel.hpp"

namespace rookery::simd {

// Conv, ConvGradInput or ConvGradWeight of 3 x 3 windows.
std::unique_ptr<Kernel> make_winograd(const KernelRequest& request);
// Conv, ConvGradInput or ConvGradWeight of maps that are hardly larger than their windows.
std::unique_ptr<Kernel> make_by_places(const KernelRequest& request);
// ConvGradWeight of 1 x 1 windows.
std::unique_ptr<Kernel> make_pointwise_gradient(const KernelRequest& request);

// A weight's windows as matrices see them: windows of so many taps, of neighbouring results and sources so
// far apart.
struct Windows {
  std::int64_t taps, result_step, source_step;
};
// to[source][tap][result] of the windows of 16 results by 16 sources that begin here.
void gather_taps(const Windows& windows, const float* weight, float* to);

}  // namespace rookery::simd
