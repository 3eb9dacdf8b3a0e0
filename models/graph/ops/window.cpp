#include "models/graph/ops/window.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kMaxExtent = 1 << 20;              // of a kernel, a stride, a dilation, a padding
constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;  // of an image along one axis

struct Bounds {
  std::int64_t least, most;
};

// Attribute `key`, `count` numbers; each is `otherwise` where it is absent.
std::vector<std::int64_t> numbers(const Op& op, const std::string& key, std::int64_t otherwise, int count,
                                  Bounds range) {
  const auto expected = static_cast<std::size_t>(count);
  std::vector<std::int64_t> values = op.integers(key, std::vector(expected, otherwise));
  if (values.size() != expected) {
    throw ConfigError(fmt::format("attribute '{}' has {} numbers, not {}", key, values.size(), expected));
  }
  for (const std::int64_t value : values) {
    if (value < range.least || value > range.most) {
      throw ConfigError(
          fmt::format("attribute '{}': {} is not from {} to {}", key, value, range.least, range.most));
    }
  }
  return values;
}

// One number an axis. The height of one-dimensional windows has `neutral`, which is ONNX's default, too.
Plane plane_attribute(const Op& op, const std::string& key, std::int64_t neutral, int axes, Bounds range) {
  const auto values = numbers(op, key, neutral, axes, range);
  return axes == 1 ? Plane{neutral, values[0]} : Plane{values[0], values[1]};
}

int axes_of(const Shape& shape) {
  return shape.rank() - 2;
}

enum class AutoPad : std::uint8_t { kGiven, kNone, kSameUpper, kSameLower };

AutoPad auto_pad_of(const Op& op) {
  const std::string text = op.text("auto_pad", "NOTSET");
  if (text == "NOTSET") return AutoPad::kGiven;
  if (text == "VALID") return AutoPad::kNone;
  if (text == "SAME_UPPER") return AutoPad::kSameUpper;
  if (text == "SAME_LOWER") return AutoPad::kSameLower;
  throw ConfigError(
      fmt::format("attribute 'auto_pad': '{}' is not NOTSET, VALID, SAME_UPPER or SAME_LOWER", text));
}

// All but what depends on the size of the image.
Window window_of(const Op& op, const Plane& kernel, int axes) {
  Window window{.kernel = kernel,
                .stride = plane_attribute(op, "strides", 1, axes, {1, kMaxExtent}),
                .dilation = plane_attribute(op, "dilations", 1, axes, {1, kMaxExtent})};
  const auto pads = numbers(op, "pads", 0, 2 * axes, {0, kMaxExtent});
  if (auto_pad_of(op) == AutoPad::kGiven) {
    window.pad_begin = axes == 1 ? Plane{0, pads[0]} : Plane{pads[0], pads[1]};
    window.pad_end = axes == 1 ? Plane{0, pads[1]} : Plane{pads[2], pads[3]};
  }
  return window;
}

Plane checked_plane(const Shape& shape) {
  const Plane plane = plane_of(shape);
  for (const std::int64_t size : plane) {
    if (size < 1 || size > kMaxSize) {
      throw ConfigError(
          fmt::format("an image of {} x {}: sizes are from 1 to {}", plane[0], plane[1], kMaxSize));
    }
  }
  return plane;
}

void split_padding(Window& window, std::size_t axis, std::int64_t total, AutoPad padding) {
  window.pad_begin[axis] = padding == AutoPad::kSameUpper ? total / 2 : total - total / 2;
  window.pad_end[axis] = total - window.pad_begin[axis];
}

void place_windows(Window& window, const Plane& plane, AutoPad padding, bool ceil) {
  for (std::size_t axis = 0; axis < plane.size(); ++axis) {
    const std::int64_t stride = window.stride[axis];
    const std::int64_t extent = window.extent(axis);
    if (padding == AutoPad::kSameUpper || padding == AutoPad::kSameLower) {
      const std::int64_t output = (plane[axis] + stride - 1) / stride;
      const std::int64_t total = (output - 1) * stride + extent - plane[axis];
      split_padding(window, axis, std::max<std::int64_t>(0, total), padding);
    }
    const std::int64_t room = plane[axis] + window.pad_begin[axis] + window.pad_end[axis] - extent;
    if (room < 0) {
      throw ConfigError(fmt::format("a window of {} does not fit into {} with padding {} and {}", extent,
                                    plane[axis], window.pad_begin[axis], window.pad_end[axis]));
    }
    std::int64_t& output = window.output[axis];
    output = (ceil ? room + stride - 1 : room) / stride + 1;
    if (ceil && (output - 1) * stride >= plane[axis] + window.pad_begin[axis]) --output;
  }
}

// The kernel that the weight has, which kernel_shape may repeat.
Plane kernel_of(const Op& op, const Shape& weight) {
  const Plane kernel = plane_of(weight);
  const int axes = axes_of(weight);
  if (std::ranges::any_of(kernel, [](std::int64_t size) { return size < 1 || size > kMaxExtent; })) {
    throw ConfigError(
        fmt::format("a weight of {}: kernels are from 1 to {}", weight.to_string(), kMaxExtent));
  }
  if (!op.attributes.contains("kernel_shape")) return kernel;
  const Plane stated = plane_attribute(op, "kernel_shape", 1, axes, {1, kMaxExtent});
  if (stated != kernel) {
    throw ConfigError(fmt::format("attribute 'kernel_shape': {} x {} is not the kernel of the weight {}",
                                  stated[0], stated[1], weight.to_string()));
  }
  return kernel;
}

bool lies_in_padding(const Window& window, std::size_t axis, std::int64_t start, std::int64_t size) {
  if (start >= 0) return start >= size;
  const std::int64_t dilation = window.dilation[axis];
  const std::int64_t first = (-start + dilation - 1) / dilation;
  return first >= window.kernel[axis] || start + first * dilation >= size;
}

void check_no_window_in_padding(const Window& window, const Plane& plane) {
  for (std::size_t axis = 0; axis < plane.size(); ++axis) {
    const std::int64_t begin = window.pad_begin[axis];
    const std::int64_t last = (window.output[axis] - 1) * window.stride[axis] - begin;
    bool alone = lies_in_padding(window, axis, last, plane[axis]);
    for (std::int64_t start = -begin; start < 0 && start <= last; start += window.stride[axis]) {
      alone = alone || lies_in_padding(window, axis, start, plane[axis]);
    }
    if (!alone) continue;
    throw ConfigError(fmt::format(
        "attribute 'pads': a window of {} elements, {} apart, over {} with padding {} and {} would "
        "lie in the padding alone",
        window.kernel[axis], window.dilation[axis], plane[axis], begin, window.pad_end[axis]));
  }
}

}  // namespace

void expect_image(const TensorType& type) {
  if (type.dtype == DType::kF32 && (type.shape.rank() == 3 || type.shape.rank() == 4)) return;
  throw ConfigError(fmt::format(
      "its input must be f32[batch, channels, length] or f32[batch, channels, height, width], not {}",
      type.to_string()));
}

Plane plane_of(const Shape& shape) {
  return shape.rank() == 3 ? Plane{1, shape[2]} : Plane{shape[2], shape[3]};
}

Shape with_plane(const Shape& like, std::int64_t channels, const Plane& plane) {
  if (like.rank() == 3) return {like[0], channels, plane[1]};
  return {like[0], channels, plane[0], plane[1]};
}

Window conv_window(const Op& op, const Shape& input, const Shape& weight) {
  Window window = window_of(op, kernel_of(op, weight), axes_of(input));
  place_windows(window, checked_plane(input), auto_pad_of(op), false);
  return window;
}

TransposedWindow conv_transpose_window(const Op& op, const Shape& input, const Shape& weight) {
  const int axes = axes_of(input);
  const Plane plane = checked_plane(input);
  const AutoPad padding = auto_pad_of(op);
  const Plane extra = plane_attribute(op, "output_padding", 0, axes, {0, kMaxExtent});
  const bool stated = op.attributes.contains("output_shape");
  const Plane wanted = plane_attribute(op, "output_shape", 1, axes, {1, kMaxSize});
  TransposedWindow result{.window = window_of(op, kernel_of(op, weight), axes), .output = {}};
  Window& window = result.window;
  window.output = plane;
  for (std::size_t axis = 0; axis < plane.size(); ++axis) {
    const std::int64_t step = std::max(window.stride[axis], window.dilation[axis]);
    if (extra[axis] >= step) {
      throw ConfigError(fmt::format("attribute 'output_padding': {} is not below stride {} or dilation {}",
                                    extra[axis], window.stride[axis], window.dilation[axis]));
    }
    const std::int64_t reach = window.stride[axis] * (plane[axis] - 1) + window.extent(axis);
    std::int64_t& output = result.output[axis];
    if (stated || padding == AutoPad::kSameUpper || padding == AutoPad::kSameLower) {
      output = stated ? wanted[axis] : plane[axis] * window.stride[axis];
      if (output >= reach + step) {
        throw ConfigError(fmt::format(
            "attribute 'output_shape': {} is more than windows reach over {} elements, which is {}", output,
            plane[axis], reach));
      }
      split_padding(window, axis, std::max<std::int64_t>(0, reach + extra[axis] - output), padding);
    } else {
      output = reach + extra[axis] - window.pad_begin[axis] - window.pad_end[axis];
    }
    if (output < 1) {
      throw ConfigError(fmt::format("attribute 'pads': {} and {} leave nothing of an output of {}",
                                    window.pad_begin[axis], window.pad_end[axis], reach + extra[axis]));
    }
    window.pad_end[axis] = reach - window.pad_begin[axis] - output;
  }
  return result;
}

Window pool_window(const Op& op, const Shape& input) {
  if (!op.attributes.contains("kernel_shape")) throw ConfigError("attribute 'kernel_shape' is missing");
  const int axes = axes_of(input);
  const Plane kernel = plane_attribute(op, "kernel_shape", 1, axes, {1, kMaxExtent});
  const AutoPad padding = auto_pad_of(op);
  const std::int64_t ceil = op.integer("ceil_mode", 0);
  if (ceil != 0 && ceil != 1) throw ConfigError(fmt::format("attribute 'ceil_mode': {} is not 0 or 1", ceil));
  Window window = window_of(op, kernel, axes);
  for (std::size_t axis = 0; axis < kernel.size(); ++axis) {
    if (std::max(window.pad_begin[axis], window.pad_end[axis]) < kernel[axis]) continue;
    throw ConfigError(fmt::format("attribute 'pads': {} and {} are not below the kernel of {}",
                                  window.pad_begin[axis], window.pad_end[axis], kernel[axis]));
  }
  const Plane plane = checked_plane(input);
  // auto_pad says how many windows there are, whatever ceil_mode.
  place_windows(window, plane, padding, padding == AutoPad::kGiven && ceil == 1);
  check_no_window_in_padding(window, plane);
  return window;
}

Window global_window(const Shape& input) {
  return {.kernel = checked_plane(input), .output = {1, 1}};
}

}  // namespace rookery
