// Concat, Split, Slice, Pad, Trilu and their gradients.
#include <algorithm>
#include <array>

#include "models/graph/ops/element_ranges.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/eigen/moving.hpp"
#include "models/kernels/shapes/broadcasting.hpp"

namespace rookery::eigen {
namespace {

using Integers = std::vector<std::int64_t>;

std::size_t index(int axis) {
  return static_cast<std::size_t>(axis);
}

// ---- Joining and parting along an axis ------------------------------------------------------

// A tensor along an axis: `rows` rows of bytes, each of the rows of its parts one after the other.
struct Parts {
  std::int64_t rows = 1;
  std::int64_t row_bytes = 0;
  Integers bytes;  // of a row of each part
};

Parts parts_along(const TensorType& whole, int axis, const Integers& sizes) {
  Parts parts;
  for (int i = 0; i < axis; ++i) parts.rows *= whole.shape[i];
  auto inner = static_cast<std::int64_t>(bytes_of(whole.dtype));
  for (int i = axis + 1; i < whole.shape.rank(); ++i) inner *= whole.shape[i];
  for (const std::int64_t size : sizes) parts.bytes.push_back(size * inner);
  parts.row_bytes = whole.shape[axis] * inner;
  return parts;
}

// Absent parts are zeros.
std::unique_ptr<Kernel> make_join(const Parts& parts) {
  return lambda_kernel([parts](const Arguments& args) {
    std::int64_t begin = 0;
    for (std::size_t part = 0; part < parts.bytes.size(); ++part) {
      const std::int64_t bytes = parts.bytes[part];
      const auto count = static_cast<std::size_t>(bytes);
      std::byte* to = args.out<std::byte>(0) + begin;
      const auto* from = args.in<std::byte>(part);
      begin += bytes;
      if (bytes == 0) continue;
      for (std::int64_t row = 0; row < parts.rows; ++row) {
        if (from == nullptr) {
          std::memset(to + row * parts.row_bytes, 0, count);
        } else {
          std::memcpy(to + row * parts.row_bytes, from + row * bytes, count);
        }
      }
    }
  });
}

// Parts that are not wanted are absent.
std::unique_ptr<Kernel> make_part(const Parts& parts) {
  return lambda_kernel([parts](const Arguments& args) {
    std::int64_t begin = 0;
    for (std::size_t part = 0; part < parts.bytes.size(); ++part) {
      const std::int64_t bytes = parts.bytes[part];
      const std::byte* from = args.in<std::byte>(0) + begin;
      auto* to = args.out<std::byte>(part);
      begin += bytes;
      if (bytes == 0 || to == nullptr) continue;
      for (std::int64_t row = 0; row < parts.rows; ++row)
        std::memcpy(to + row * bytes, from + row * parts.row_bytes, bytes);
    }
  });
}

Integers sizes_along(std::span<const TensorType> types, int axis) {
  Integers sizes;
  for (const TensorType& type : types) sizes.push_back(type.shape[axis]);
  return sizes;
}

std::unique_ptr<Kernel> make_split(const KernelRequest& request) {
  const TensorType& whole = request.inputs[0];
  const int axis = axis_of(request.op.integer("axis", 0), whole.shape.rank());
  return make_part(parts_along(whole, axis, split_of(request.op, whole.shape[axis], request.outputs.size())));
}

std::unique_ptr<Kernel> make_split_grad(const KernelRequest& request) {
  const TensorType& whole = request.outputs[0];
  const int axis = axis_of(request.op.integer("axis", 0), whole.shape.rank());
  return make_join(parts_along(whole, axis, split_of(request.op, whole.shape[axis], request.inputs.size())));
}

// ---- Boxes: a region of one tensor is a region of another -----------------------------------

// The same elements in two tensors: where the first of them lies in each, and how they go on.
struct Box {
  Broadcasting<2> walk;  // steps in the source, steps in the target
  std::int64_t from = 0, to = 0;
};

std::unique_ptr<Kernel> make_box(DType dtype, const Box& box, std::size_t fill_bytes,
                                 const std::array<std::byte, 8>& fill = {}) {
  return with_element_size(dtype, [&](auto size) -> std::unique_ptr<Kernel> {
    return lambda_kernel([=](const Arguments& args) {
      constexpr std::size_t kBytes = decltype(size)::value;
      constexpr auto kSize = static_cast<std::int64_t>(kBytes);
      auto* to = args.out<std::byte>(0);
      for (std::size_t i = 0; i < fill_bytes; i += kBytes) std::memcpy(to + i, fill.data(), kBytes);
      box.walk.for_runs([&](std::int64_t, const auto& offsets) {
        move_run<kBytes>(to + (box.to + offsets[1]) * kSize, box.walk.steps()[1],
                         args.in<std::byte>(0) + (box.from + offsets[0]) * kSize, box.walk.steps()[0],
                         box.walk.length());
      });
    });
  });
}

// The sliced elements in the whole, and by themselves.
struct Sliced {
  Integers dims, in_whole, alone;
  std::int64_t first = 0;
};

Sliced sliced(const Op& op, const Shape& whole, const Shape& part) {
  Sliced result{dims_of(part), steps_of(whole), steps_of(part)};
  const std::vector<AxisRange> ranges = slice_of(op, whole);
  for (std::size_t axis = 0; axis < ranges.size(); ++axis) {
    if (part.elements() > 0) result.first += ranges[axis].start * result.in_whole[axis];
    result.in_whole[axis] *= ranges[axis].step;
  }
  return result;
}

std::unique_ptr<Kernel> make_slice(const KernelRequest& request) {
  const Sliced s = sliced(request.op, request.inputs[0].shape, request.outputs[0].shape);
  return make_box(request.outputs[0].dtype,
                  {.walk = Broadcasting<2>(s.dims, {s.in_whole, s.alone}), .from = s.first}, 0);
}

std::unique_ptr<Kernel> make_slice_grad(const KernelRequest& request) {
  const Sliced s = sliced(request.op, request.outputs[0].shape, request.inputs[0].shape);
  return make_box(request.outputs[0].dtype,
                  {.walk = Broadcasting<2>(s.dims, {s.alone, s.in_whole}), .to = s.first},
                  request.outputs[0].bytes());
}

// ---- Padding --------------------------------------------------------------------------------

// Zero is the same bytes in every type; another number is of f32.
std::array<std::byte, 8> fill_of(float number) {
  std::array<std::byte, 8> bytes{};
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

// What is left of the unpadded tensor within the padded one.
struct Kept {
  Integers dims, plain_steps, padded_steps;
  std::int64_t in_plain = 0, in_padded = 0;
};

Kept kept(const Op& op, const Shape& plain, const Shape& padded) {
  Kept result{{}, steps_of(plain), steps_of(padded)};
  const Padding padding = padding_of(op, plain);
  for (int axis = 0; axis < plain.rank(); ++axis) {
    const std::int64_t begin = padding.begin[index(axis)];
    const std::int64_t first = std::min(plain[axis], std::max<std::int64_t>(0, -begin));
    const std::int64_t last = plain[axis] + std::min<std::int64_t>(0, padding.end[index(axis)]);
    result.dims.push_back(std::max<std::int64_t>(0, last - first));
    result.in_plain += first * result.plain_steps[index(axis)];
    result.in_padded += (first + begin) * result.padded_steps[index(axis)];
  }
  return result;
}

// By axis and place in the padded tensor, the place in the plain one, in elements.
struct Mirror {
  Integers dims;  // of the padded tensor
  std::vector<Integers> places;

  // body(run in the padded tensor, offset of the run in the plain one), along the last axis.
  template <typename Body>
  void for_runs(Body body) const {
    std::int64_t runs = dims.back() == 0 ? 0 : 1;
    for (std::size_t axis = 0; axis + 1 < dims.size(); ++axis) runs *= dims[axis];
    std::array<std::int64_t, kMaxRank> at{};
    for (std::int64_t run = 0; run < runs; ++run) {
      std::int64_t offset = 0;
      for (std::size_t axis = 0; axis + 1 < dims.size(); ++axis) offset += places[axis][at[axis]];
      body(run * dims.back(), offset);
      for (std::size_t axis = dims.size() - 1; axis-- > 0;) {
        if (++at[axis] < dims[axis]) break;
        at[axis] = 0;
      }
    }
  }
};

Mirror mirror(const Op& op, const Shape& plain, const Shape& padded) {
  const Padding padding = padding_of(op, plain);
  const Integers steps = steps_of(plain);
  Mirror result{dims_of(padded), {}};
  for (int axis = 0; axis < plain.rank(); ++axis) {
    const std::int64_t last = plain[axis] - 1;
    Integers places;
    for (std::int64_t i = 0; i < padded[axis]; ++i) {
      std::int64_t at = i - padding.begin[index(axis)];
      if (padding.mode == PadMode::kReflect) {
        at = at < 0 ? -at : at > last ? 2 * last - at : at;
      }
      places.push_back(std::clamp<std::int64_t>(at, 0, last) * steps[index(axis)]);
    }
    result.places.push_back(std::move(places));
  }
  if (result.dims.empty()) result = {{1}, {{0}}};
  return result;
}

std::unique_ptr<Kernel> make_pad(const KernelRequest& request) {
  const TensorType& padded = request.outputs[0];
  const Shape& plain = request.inputs[0].shape;
  if (padding_of(request.op, plain).mode == PadMode::kConstant) {
    const Kept k = kept(request.op, plain, padded.shape);
    const Box box{Broadcasting<2>(k.dims, {k.plain_steps, k.padded_steps}), k.in_plain, k.in_padded};
    return make_box(padded.dtype, box, padded.bytes(), fill_of(request.op.number("constant_value", 0)));
  }
  return with_element_size(padded.dtype, [&](auto size) -> std::unique_ptr<Kernel> {
    return lambda_kernel([m = mirror(request.op, plain, padded.shape)](const Arguments& args) {
      constexpr std::size_t kBytes = decltype(size)::value;
      const Integers& last = m.places.back();
      m.for_runs([&](std::int64_t run, std::int64_t offset) {
        std::byte* to = args.out<std::byte>(0) + run * static_cast<std::int64_t>(kBytes);
        const auto* from = args.in<std::byte>(0);
        for (std::size_t i = 0; i < last.size(); ++i)
          std::memcpy(to + i * kBytes, from + (offset + last[i]) * static_cast<std::int64_t>(kBytes), kBytes);
      });
    });
  });
}

// What was repeated is summed in the order of dY.
std::unique_ptr<Kernel> make_pad_grad(const KernelRequest& request) {
  const TensorType& plain = request.outputs[0];
  const Shape& padded = request.inputs[0].shape;
  if (padding_of(request.op, plain.shape).mode == PadMode::kConstant) {
    const Kept k = kept(request.op, plain.shape, padded);
    const Box box{Broadcasting<2>(k.dims, {k.padded_steps, k.plain_steps}), k.in_padded, k.in_plain};
    const bool cuts = Shape(k.dims) != plain.shape;
    return make_box(plain.dtype, box, cuts ? plain.bytes() : 0);
  }
  return with_real(plain.dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    using T = decltype(zero);
    return lambda_kernel(
        [m = mirror(request.op, plain.shape, padded), n = plain.shape.elements()](const Arguments& args) {
          T* dx = args.out<T>(0);
          std::fill_n(dx, n, T(0));
          const Integers& last = m.places.back();
          m.for_runs([&](std::int64_t run, std::int64_t offset) {
            const T* dy = args.in<T>(0) + run;
            for (std::size_t i = 0; i < last.size(); ++i) dx[offset + last[i]] += dy[i];
          });
        });
  });
}

// ---- Triangles ------------------------------------------------------------------------------

std::unique_ptr<Kernel> make_trilu(const KernelRequest& request) {
  const TensorType& type = request.outputs[0];
  const std::int64_t rows = type.shape[-2];
  const std::int64_t columns = type.shape[-1];
  const std::int64_t all_rows = columns == 0 ? 0 : type.shape.elements() / columns;
  const std::int64_t k = std::clamp(request.op.integer("k", 0), -rows - 1, columns + 1);
  const bool upper = request.op.integer("upper", 1) != 0;
  const auto size = static_cast<std::int64_t>(bytes_of(type.dtype));
  return lambda_kernel([=](const Arguments& args) {
    for (std::int64_t i = 0; i < all_rows; ++i) {
      const std::int64_t row = i % rows;
      const std::int64_t begin = upper ? std::clamp<std::int64_t>(row + k, 0, columns) : 0;
      const std::int64_t end = upper ? columns : std::clamp<std::int64_t>(row + k + 1, 0, columns);
      const std::byte* from = args.in<std::byte>(0) + i * columns * size;
      std::byte* to = args.out<std::byte>(0) + i * columns * size;
      if (begin > 0) std::memset(to, 0, begin * size);
      if (end > begin && from != to)
        std::memcpy(to + begin * size, from + begin * size, (end - begin) * size);
      if (end < columns) std::memset(to + end * size, 0, (columns - end) * size);
    }
  });
}

std::unique_ptr<Kernel> make_concat(const KernelRequest& request) {
  const int axis = axis_of(request.op.integer("axis", 0), request.outputs[0].shape.rank());
  return make_join(parts_along(request.outputs[0], axis, sizes_along(request.inputs, axis)));
}

std::unique_ptr<Kernel> make_concat_grad(const KernelRequest& request) {
  const int axis = axis_of(request.op.integer("axis", 0), request.inputs[0].shape.rank());
  return make_part(parts_along(request.inputs[0], axis, sizes_along(request.outputs, axis)));
}

}  // namespace

void add_parts(KernelTable& table) {
  table.add("Concat", {make_concat});
  table.add("ConcatGrad", {make_concat_grad});
  table.add("Split", {make_split});
  table.add("SplitGrad", {make_split_grad});
  table.add("Slice", {make_slice});
  table.add("SliceGrad", {make_slice_grad});
  table.add("Pad", {make_pad});
  table.add("PadGrad", {make_pad_grad});
  table.add("Trilu", {make_trilu});
}

}  // namespace rookery::eigen
