// Convolution over maps so small that nearly every input place reaches every output place: the weight is
// spread out into the dense matrix [inputs of an image, outputs of an image], and the whole batch is one
// matrix product.
#pragma once

#include <memory>

#include "models/kernels/shapes/shapes.hpp"

namespace rookery::simd {

// Does the dense product take hardly more arithmetic than the convolution? One group only.
bool is_tiny(const ConvShape& shape);

// `relu`: of the output.
std::unique_ptr<Kernel> make_dense_conv(const ConvShape& shape, bool relu);
std::unique_ptr<Kernel> make_dense_conv_grad_input(const ConvShape& shape);
std::unique_ptr<Kernel> make_dense_conv_grad_weight(const ConvShape& shape);

}  // namespace rookery::simd
