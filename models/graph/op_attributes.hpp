// Attributes that passes give to ops of several families when a stage is compiled.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

// Attributes of an op that applies max(x, 0) to its output 0, and of which op that was.
constexpr const char* kActivation = "activation";       // "relu"
constexpr const char* kActivationOp = "activation_op";  // name of the Relu

bool has_activation(const Op& op);

// Images in blocks of channels: f32[n, c, h, w] with c a multiple of 16 becomes f32[n, c / 16, h, w, 16]. An
// op with the attribute blocked = 1 works on such images: its inputs of rank 5 and what would be outputs of
// rank 4 are blocked. The ops ToBlocked and FromBlocked convert.
constexpr std::int64_t kChannelBlock = 16;

bool is_blocked(const Op& op);

// ConfigError when the shape is none of an image, or its channels make no whole blocks.
Shape blocked_shape(const Shape& image);
Shape plain_shape(const Shape& blocked);

// OpDefinition::infer of an op that may be blocked.
std::vector<TensorType> infer_types(const Op& op, std::span<const TensorType> inputs);

}  // namespace rookery
