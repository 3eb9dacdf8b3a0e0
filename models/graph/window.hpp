// The sliding windows of convolution and pooling: ONNX's kernel_shape, strides, dilations, pads and
// auto_pad resolved to numbers.
#pragma once

#include <array>
#include <cstdint>

#include "models/graph/graph.hpp"

namespace rookery {

// Height first, then width.
struct Window {
  std::array<std::int64_t, 2> kernel{1, 1};
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> dilation{1, 1};
  std::array<std::int64_t, 2> pad_begin{0, 0};
  std::array<std::int64_t, 2> pad_end{0, 0};
  std::array<std::int64_t, 2> output{0, 0};
};

// Of a Conv over `input` [n, c, h, w] with `weight` [o, i, kh, kw]. ConfigError when attributes are
// out of range, disagree with the weight, or leave no output.
Window conv_window(const Op& op, const Shape& input, const Shape& weight);
// Of a pooling op over `input`. Padding must be smaller than the kernel; ceil_mode is refused.
Window pool_window(const Op& op, const Shape& input);

}  // namespace rookery
