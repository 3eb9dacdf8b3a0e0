// Convolutions on images in blocks, by the algorithms that a request may name (KernelRequest::variant). All
// return nullptr for a convolution that they do not serve. Internal to this back end.
#pragma once

#include <memory>

#include "models/kernels/kernel.hpp"

namespace rookery::simd {

// Conv, ConvGradInput or ConvGradWeight of 3 x 3 windows.
std::unique_ptr<Kernel> make_winograd(const KernelRequest& request);
// Conv, ConvGradInput or ConvGradWeight of maps that are hardly larger than their windows.
std::unique_ptr<Kernel> make_by_places(const KernelRequest& request);
// ConvGradWeight of 1 x 1 windows.
std::unique_ptr<Kernel> make_pointwise_gradient(const KernelRequest& request);

}  // namespace rookery::simd
