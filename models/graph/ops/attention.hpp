// The sizes of an Attention op (attention_ops.cpp), from its inputs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "models/graph/graph.hpp"

namespace rookery {

// Positions among the inputs of Attention.
enum AttentionInput : std::size_t { kAttentionQ, kAttentionK, kAttentionV, kAttentionMask };

// Y[rows, width] = softmax(scale Q[rows, depth] K[columns, depth]^T) V[columns, width] in every head.
struct AttentionSizes {
  std::int64_t batch, heads, rows, columns, depth, width;
};

// Shapes of absent inputs are not read. ConfigError where heads do not divide the widths; ranks must be
// right.
AttentionSizes attention_sizes(const Op& op, const Shape& q, const Shape& k, const Shape& v);

}  // namespace rookery
