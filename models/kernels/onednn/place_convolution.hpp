// Convolutions as products of places (variant "places"): blocked images of small maps.
#pragma once

#include <memory>

#include "models/kernels/kernel.hpp"

namespace rookery::onednn {

// Conv, ConvGradInput or ConvGradWeight; nullptr for all else that it does not serve.
std::unique_ptr<Kernel> make_place_convolution(const KernelRequest& request);

}  // namespace rookery::onednn
