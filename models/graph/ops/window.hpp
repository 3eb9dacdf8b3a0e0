// The sliding windows of convolution and pooling: ONNX's kernel_shape, strides, dilations, pads, auto_pad,
// ceil_mode, output_padding and output_shape resolved to numbers. A window over [n, c, l] is one over
// [n, c, 1, l] of height 1.
#pragma once

#include <array>
#include <cstdint>

#include "models/graph/graph.hpp"

namespace rookery {

// Height first, then width.
using Plane = std::array<std::int64_t, 2>;

struct Window {
  Plane kernel{1, 1};
  Plane stride{1, 1};
  Plane dilation{1, 1};
  Plane pad_begin{0, 0};
  Plane pad_end{0, 0};
  Plane output{0, 0};  // windows along each axis

  std::int64_t taps() const { return kernel[0] * kernel[1]; }
  // From the first to the last element along an axis, dilation included.
  std::int64_t extent(std::size_t axis) const { return (kernel[axis] - 1) * dilation[axis] + 1; }
};

// ConfigError where it is neither f32[n, c, l] nor f32[n, c, h, w].
void expect_image(const TensorType& type);
// Height and width of [n, c, h, w]; {1, l} of [n, c, l].
Plane plane_of(const Shape& shape);
// [batch of `like`, channels, plane], of the rank of `like`.
Shape with_plane(const Shape& like, std::int64_t channels, const Plane& plane);

// The functions below throw ConfigError naming attribute and numbers where these are out of range, contradict
// each other or the shapes, or leave no output.

// The window of a Conv over `input` with `weight` [o, i, kernel].
Window conv_window(const Op& op, const Shape& input, const Shape& weight);

// A ConvTranspose is the gradient of a convolution: it takes what that makes to the size of what that reads.
struct TransposedWindow {
  Window window;  // of that convolution. Its pad_end may be negative where elements lie behind all windows
  Plane output;   // of the ConvTranspose
};

TransposedWindow conv_transpose_window(const Op& op, const Shape& input, const Shape& weight);

// The window of a MaxPool or AveragePool over `input`. No window lies in the padding alone. With ceil_mode a
// last window may reach beyond the padding, but starts before it (as PyTorch does, and ONNX since opset 22).
Window pool_window(const Op& op, const Shape& input);
// The window that is all of `input`.
Window global_window(const Shape& input);

}  // namespace rookery
