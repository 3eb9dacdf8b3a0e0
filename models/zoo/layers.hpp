// Pieces that several models of the zoo are made of.
#pragma once

#include <cstdint>
#include <string>

#include "models/graph/ops/builder.hpp"

namespace rookery {

// Weights drawn from a normal distribution, biases 0.
LayerStart normal_start(float deviation);

// `channels` times `width`, to a multiple of 8 that is at least nine tenths of it (as in MobileNetV2, arXiv
// 1801.04381); `channels` where `width` is 1.
std::int64_t scaled(std::int64_t channels, double width);

// A convolution without bias, called `conv`, and batch norm, called `norm`. Weights that `options` says
// nothing of are drawn as for ReLU networks by fan-out (arXiv 1502.01852).
ValueId conv_norm(GraphBuilder& net, const std::string& conv, const std::string& norm, ValueId x,
                  std::int64_t channels, GraphBuilder::ConvOptions options, float epsilon = 1e-5F);

// x + dropout(y): a transformer's "<name>.add" and "<name>.dropout".
ValueId add_dropped(GraphBuilder& net, const std::string& name, ValueId x, ValueId y, float dropout);

}  // namespace rookery
