#include "models/graph/ops/element_ranges.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

using Integers = std::vector<std::int64_t>;

std::size_t as_size(int axis) {
  return static_cast<std::size_t>(axis);
}

// ONNX lets a bound lie anywhere; what is outside of the axis is moved to its nearest legal place.
AxisRange slice_axis(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t size) {
  if (step == 0) throw ConfigError("a step of 0");
  if (step == std::numeric_limits<std::int64_t>::min()) throw ConfigError(fmt::format("a step of {}", step));
  const auto clamped = [&](std::int64_t bound, std::int64_t low, std::int64_t high) {
    if (bound < 0) bound = bound < -size ? low : bound + size;
    return std::clamp(bound, low, std::max(low, high));
  };
  if (step > 0) {
    const std::int64_t from = clamped(start, 0, size);
    const std::int64_t to = clamped(end, 0, size);
    return {from, step, to > from ? (to - from - 1) / step + 1 : 0};
  }
  if (size == 0) return {0, step, 0};
  const std::int64_t from = clamped(start, 0, size - 1);
  const std::int64_t to = clamped(end, -1, size - 1);
  return {from, step, from > to ? (from - to - 1) / -step + 1 : 0};
}

}  // namespace

int axis_of(std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) throw ConfigError(fmt::format("axis {} of rank {}", axis, rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int> axes_of(const Integers& axes, int rank) {
  std::vector<int> result;
  for (const std::int64_t axis : axes) {
    const int resolved = axis_of(axis, rank);
    if (std::ranges::count(result, resolved) > 0)
      throw ConfigError(fmt::format("axis {} is given twice", axis));
    result.push_back(resolved);
  }
  return result;
}

std::int64_t checked_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    throw ConfigError(fmt::format("{} times {} is too large", a, b));
  return product;
}

Shape checked_shape(const Integers& dims) {
  if (dims.size() > kMaxRank) {
    throw ConfigError(fmt::format("makes {} dimensions; at most {} are supported", dims.size(), kMaxRank));
  }
  const Shape shape{std::span<const std::int64_t>(dims)};
  try {
    shape.elements();
  } catch (const DataError& error) {
    throw ConfigError(error.what());
  }
  return shape;
}

std::vector<int> permutation_of(const Op& op, int rank) {
  Integers perm(as_size(rank));
  std::iota(perm.rbegin(), perm.rend(), 0);
  perm = op.integers("perm", perm);
  const bool counts_up = std::ranges::all_of(perm, [](std::int64_t axis) { return axis >= 0; });
  if (std::ssize(perm) != rank || !counts_up) {
    throw ConfigError(fmt::format("perm [{}] is no order of the {} axes", fmt::join(perm, ", "), rank));
  }
  return axes_of(perm, rank);
}

std::vector<AxisRange> slice_of(const Op& op, const Shape& shape) {
  const Integers starts = op.integers("starts", {});
  const Integers ends = op.integers("ends", {});
  Integers first(starts.size());
  std::iota(first.begin(), first.end(), 0);
  const Integers given = op.integers("axes", first);
  const Integers steps = op.integers("steps", Integers(starts.size(), 1));
  if (starts.empty() || ends.size() != starts.size() || given.size() != starts.size() ||
      steps.size() != starts.size()) {
    throw ConfigError(fmt::format("{} starts, {} ends, {} axes and {} steps", starts.size(), ends.size(),
                                  given.size(), steps.size()));
  }
  const std::vector<int> axes = axes_of(given, shape.rank());
  std::vector<AxisRange> ranges;
  for (const std::int64_t dim : shape.dims()) ranges.push_back({0, 1, dim});
  for (std::size_t i = 0; i < axes.size(); ++i) {
    ranges[as_size(axes[i])] = slice_axis(starts[i], ends[i], steps[i], shape[axes[i]]);
  }
  return ranges;
}

Integers split_of(const Op& op, std::int64_t size, std::size_t parts) {
  if (parts == 0) throw ConfigError("has no outputs");
  if (!op.attributes.contains("split")) {
    const auto count = static_cast<std::int64_t>(parts);
    if (size % count != 0) {
      throw ConfigError(fmt::format(
          "{} elements do not split into {} equal parts: give their sizes as 'split'", size, count));
    }
    return Integers(parts, size / count);
  }
  Integers sizes = op.integers("split", {});
  if (sizes.size() != parts) throw ConfigError(fmt::format("{} sizes for {} outputs", sizes.size(), parts));
  std::int64_t left = size;
  for (const std::int64_t part : sizes) {
    if (part < 0 || part > left) {
      throw ConfigError(fmt::format("parts of [{}] do not make up {}", fmt::join(sizes, ", "), size));
    }
    left -= part;
  }
  if (left != 0)
    throw ConfigError(fmt::format("parts of [{}] do not make up {}", fmt::join(sizes, ", "), size));
  return sizes;
}

Padding padding_of(const Op& op, const Shape& shape) {
  Padding padding;
  const std::string mode = op.text("mode", "constant");
  if (mode == "reflect") {
    padding.mode = PadMode::kReflect;
  } else if (mode == "edge") {
    padding.mode = PadMode::kEdge;
  } else if (mode != "constant") {
    throw ConfigError(fmt::format("mode is '{}', not 'constant', 'reflect' or 'edge'", mode));
  }
  const Integers pads = op.integers("pads", {});
  const auto rank = as_size(shape.rank());
  if (pads.size() != 2 * rank) {
    throw ConfigError(fmt::format("{} pads for {} axes: two for each are needed", pads.size(), rank));
  }
  padding.begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  padding.end.assign(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end());
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t size = shape[static_cast<int>(axis)];
    for (const std::int64_t pad : {padding.begin[axis], padding.end[axis]}) {
      const bool far = pad > (std::int64_t{1} << 40) || pad < -size;
      const bool beyond = (padding.mode == PadMode::kReflect && pad >= size && pad > 0) ||
                          (padding.mode == PadMode::kEdge && size == 0 && pad > 0);
      if (far || beyond)
        throw ConfigError(fmt::format("a pad of {} at an axis of {} in mode '{}'", pad, size, mode));
    }
    if (size + padding.begin[axis] + padding.end[axis] < 0) {
      throw ConfigError(fmt::format("pads of {} and {} leave nothing of an axis of {}", padding.begin[axis],
                                    padding.end[axis], size));
    }
  }
  return padding;
}

}  // namespace rookery
