// Convolutions over blocked images of small maps (variant "places"): a place is a position of a map, and each
// pair of an input place and an output place is a matrix product.
#pragma once

#include <memory>

#include "models/kernels/kernel.hpp"

namespace rookery::onednn {

// Conv, ConvGradInput or ConvGradWeight; nullptr for all else that it does not serve.
std::unique_ptr<Kernel> make_place_convolution(const KernelRequest& request);

}  // namespace rookery::onednn
