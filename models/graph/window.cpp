#include "models/graph/window.hpp"

#include <fmt/format.h>

#include "models/base/error.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kMaxExtent = 1 << 20;

// `count` numbers of at least `least`.
std::vector<std::int64_t> numbers(const Op& op, const std::string& key, std::vector<std::int64_t> otherwise,
                                  std::size_t count, std::int64_t least) {
  std::vector<std::int64_t> values = op.integers(key, std::move(otherwise));
  if (values.size() != count) {
    throw ConfigError(fmt::format("attribute '{}' has {} numbers, not {}", key, values.size(), count));
  }
  for (const std::int64_t value : values) {
    if (value < least || value > kMaxExtent) {
      throw ConfigError(fmt::format("attribute '{}': {} is out of range", key, value));
    }
  }
  return values;
}

void pad_same(Window& window, std::size_t axis, std::int64_t input, bool upper) {
  const std::int64_t extent = (window.kernel[axis] - 1) * window.dilation[axis] + 1;
  const std::int64_t output = (input + window.stride[axis] - 1) / window.stride[axis];
  const std::int64_t total = std::max<std::int64_t>(0, (output - 1) * window.stride[axis] + extent - input);
  window.pad_begin[axis] = upper ? total / 2 : total - total / 2;
  window.pad_end[axis] = total - window.pad_begin[axis];
}

Window resolve(const Op& op, const Shape& input, std::array<std::int64_t, 2> kernel) {
  Window window{.kernel = kernel};
  const auto strides = numbers(op, "strides", {1, 1}, 2, 1);
  const auto dilations = numbers(op, "dilations", {1, 1}, 2, 1);
  const auto pads = numbers(op, "pads", {0, 0, 0, 0}, 4, 0);
  const std::string auto_pad = op.text("auto_pad", "NOTSET");
  if (auto_pad != "NOTSET" && auto_pad != "VALID" && auto_pad != "SAME_UPPER" && auto_pad != "SAME_LOWER") {
    throw ConfigError(fmt::format("attribute 'auto_pad': '{}' is unknown", auto_pad));
  }
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t size = input[static_cast<int>(axis) + 2];
    window.stride[axis] = strides[axis];
    window.dilation[axis] = dilations[axis];
    if (auto_pad == "NOTSET") {
      window.pad_begin[axis] = pads[axis];
      window.pad_end[axis] = pads[axis + 2];
    } else if (auto_pad != "VALID") {
      pad_same(window, axis, size, auto_pad == "SAME_UPPER");
    }
    const std::int64_t extent = (window.kernel[axis] - 1) * window.dilation[axis] + 1;
    const std::int64_t room = size + window.pad_begin[axis] + window.pad_end[axis] - extent;
    if (room < 0) {
      throw ConfigError(fmt::format("a window of {} does not fit into {} with padding {} and {}", extent,
                                    size, window.pad_begin[axis], window.pad_end[axis]));
    }
    window.output[axis] = room / window.stride[axis] + 1;
  }
  return window;
}

}  // namespace

Window conv_window(const Op& op, const Shape& input, const Shape& weight) {
  const std::array<std::int64_t, 2> kernel{weight[2], weight[3]};
  const auto stated = numbers(op, "kernel_shape", {kernel[0], kernel[1]}, 2, 1);
  if (stated[0] != kernel[0] || stated[1] != kernel[1]) {
    throw ConfigError(fmt::format("kernel_shape [{}, {}] is not that of the weight {}", stated[0], stated[1],
                                  weight.to_string()));
  }
  return resolve(op, input, kernel);
}

Window pool_window(const Op& op, const Shape& input) {
  const auto kernel = numbers(op, "kernel_shape", {}, 2, 1);
  if (op.integer("ceil_mode", 0) != 0) throw ConfigError("ceil_mode is not supported");
  const Window window = resolve(op, input, {kernel[0], kernel[1]});
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (window.dilation[axis] != 1) throw ConfigError("dilations are not supported");
    if (window.pad_begin[axis] >= window.kernel[axis] || window.pad_end[axis] >= window.kernel[axis]) {
      throw ConfigError("a window would lie in the padding alone");
    }
  }
  return window;
}

}  // namespace rookery
