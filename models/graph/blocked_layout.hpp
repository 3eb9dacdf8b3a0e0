// Images in blocks of channels, as fast convolutions want them: f32[n, c, h, w] with c a multiple of 16
// becomes f32[n, c / 16, h, w, 16]. An op with the attribute blocked = 1 works on such images: its inputs of
// rank 5 and what would be outputs of rank 4 are blocked. ToBlocked and FromBlocked convert, each the
// gradient of the other. No model has these: the pass below makes them when a stage is compiled.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

constexpr std::int64_t kChannelBlock = 16;

bool is_blocked(const Op& op);

// ConfigError when the shape is none of an image, or its channels make no whole blocks.
Shape blocked_shape(const Shape& image);
Shape plain_shape(const Shape& blocked);

// OpDefinition::infer of an op that may be blocked.
std::vector<TensorType> infer_types(const Op& op, std::span<const TensorType> inputs);

// The same graph with `ops` in blocked layout and conversions where they meet others. Ops that know no
// blocked images (OpDefinition::images) stay as they are. Inputs, outputs and state keep
// names and types. `received`: values whose gradient partly arrives from other stages.
//
// Gradients are summed in the order of the plain graph: uses of a value share a conversion only where
// that changes no order.
Graph with_blocked_layout(const Graph& forward, const std::set<std::string>& ops,
                          const std::set<ValueId>& received);

}  // namespace rookery
