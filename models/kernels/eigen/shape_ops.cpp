// Transpose, Expand, Tile and their gradients.
#include <algorithm>

#include "models/graph/ops/element_ranges.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/eigen/moving.hpp"
#include "models/kernels/shapes/broadcasting.hpp"

namespace rookery::eigen {
namespace {

using Integers = std::vector<std::int64_t>;

std::unique_ptr<Kernel> make_copy(const KernelRequest& request) {
  return lambda_kernel([bytes = request.outputs[0].bytes()](const Arguments& args) {
    if (bytes > 0) std::memcpy(args.out<std::byte>(0), args.in<std::byte>(0), bytes);
  });
}

// The output's elements in their order, from an input whose elements lie `steps` apart along its axes.
std::unique_ptr<Kernel> make_strided(const TensorType& output, const Integers& dims, const Integers& steps) {
  const Broadcasting<1> walk(dims, {steps});
  return with_element_size(output.dtype, [&](auto size) -> std::unique_ptr<Kernel> {
    return lambda_kernel([walk](const Arguments& args) {
      constexpr auto kSize = static_cast<std::int64_t>(decltype(size)::value);
      walk.for_runs([&](std::int64_t place, const auto& offsets) {
        move_run<decltype(size)::value>(args.out<std::byte>(0) + place * kSize, 1,
                                        args.in<std::byte>(0) + offsets[0] * kSize, walk.steps()[0],
                                        walk.length());
      });
    });
  });
}

// Axes of an output, from the outermost: how many elements, and how far apart in the input.
struct Axis {
  std::int64_t size, from_step;
};

// Without those of one element, and with one for neighbours that are walked through alike.
std::vector<Axis> joined(const std::vector<Axis>& axes) {
  std::vector<Axis> result;
  for (const Axis& axis : axes) {
    if (axis.size == 1) continue;
    if (!result.empty() && result.back().from_step == axis.from_step * axis.size) {
      result.back() = {result.back().size * axis.size, axis.from_step};
    } else {
      result.push_back(axis);
    }
  }
  return result;
}

// to[row, column] = from[column, row], in squares that stay in the cache.
template <std::size_t kSize>
void transpose_plane(std::byte* to, std::int64_t to_step, const std::byte* from, std::int64_t from_step,
                     std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kSquare = 16;
  constexpr auto kBytes = static_cast<std::int64_t>(kSize);
  for (std::int64_t row = 0; row < rows; row += kSquare) {
    const std::int64_t row_end = std::min(rows, row + kSquare);
    for (std::int64_t column = 0; column < columns; column += kSquare) {
      const std::int64_t column_end = std::min(columns, column + kSquare);
      for (std::int64_t r = row; r < row_end; ++r) {
        move_run<kSize>(to + (r * to_step + column) * kBytes, 1, from + (column * from_step + r) * kBytes,
                        from_step, column_end - column);
      }
    }
  }
}

// Where neighbours of the output are far apart in the input: planes of its last axis and the axis
// whose neighbours are neighbours in the input.
std::unique_ptr<Kernel> make_planes(DType dtype, std::vector<Axis> axes) {
  const Axis columns = axes.back();
  Integers to_steps(axes.size(), 1);
  for (std::size_t i = axes.size(); i-- > 1;) to_steps[i - 1] = to_steps[i] * axes[i].size;
  const auto row_axis = std::ranges::find(axes, std::int64_t{1}, &Axis::from_step) - axes.begin();
  const Axis rows = axes[row_axis];
  const std::int64_t to_step = to_steps[row_axis];
  Integers dims, from, to;
  for (std::size_t i = 0; i + 1 < axes.size(); ++i) {
    if (std::cmp_equal(i, row_axis)) continue;
    dims.push_back(axes[i].size);
    from.push_back(axes[i].from_step);
    to.push_back(to_steps[i]);
  }
  const Broadcasting<2> walk(dims, {from, to});
  return with_element_size(dtype, [&](auto size) -> std::unique_ptr<Kernel> {
    return lambda_kernel([=](const Arguments& args) {
      constexpr auto kSize = static_cast<std::int64_t>(decltype(size)::value);
      walk.for_runs([&](std::int64_t, const auto& offsets) {
        for (std::int64_t i = 0; i < walk.length(); ++i) {
          transpose_plane<decltype(size)::value>(
              args.out<std::byte>(0) + (offsets[1] + i * walk.steps()[1]) * kSize, to_step,
              args.in<std::byte>(0) + (offsets[0] + i * walk.steps()[0]) * kSize, columns.from_step,
              rows.size, columns.size);
        }
      });
    });
  });
}

// `order` has the input's axis for every axis of the output.
std::unique_ptr<Kernel> make_permutation(const KernelRequest& request, const std::vector<int>& order) {
  const Shape& input = request.inputs[0].shape;
  const Integers steps = steps_of(input);
  std::vector<Axis> axes;
  for (const int axis : order) axes.push_back({input[axis], steps[axis]});
  const bool is_empty = input.elements() == 0;
  axes = joined(axes);
  if (is_empty || axes.empty() || axes.back().from_step == 1) {
    Integers dims, from;
    for (const Axis& axis : axes) {
      dims.push_back(is_empty ? 0 : axis.size);
      from.push_back(axis.from_step);
    }
    return make_strided(request.outputs[0], dims, from);
  }
  return make_planes(request.outputs[0].dtype, axes);
}

std::unique_ptr<Kernel> make_transpose(const KernelRequest& request) {
  return make_permutation(request, permutation_of(request.op, request.inputs[0].shape.rank()));
}

std::unique_ptr<Kernel> make_transpose_grad(const KernelRequest& request) {
  const std::vector<int> order = permutation_of(request.op, request.inputs[0].shape.rank());
  std::vector<int> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) back[order[i]] = static_cast<int>(i);
  return make_permutation(request, back);
}

// How a tensor of shape `small` is repeated to a larger one: axes of the larger one, some of them in two,
// and the steps through the small one.
struct Repetition {
  Integers dims, steps;
};

Repetition expansion(const Shape& small, const Shape& large) {
  Repetition result{dims_of(large), Integers(static_cast<std::size_t>(large.rank()), 0)};
  const Integers steps = steps_of(small);
  for (int axis = 0; axis < small.rank(); ++axis) {
    const auto at = static_cast<std::size_t>(large.rank() - small.rank() + axis);
    if (small[axis] != 1) result.steps[at] = steps[axis];
  }
  return result;
}

Repetition tiling(const Shape& small, const Shape& large) {
  Repetition result;
  const Integers steps = steps_of(small);
  for (int axis = 0; axis < small.rank(); ++axis) {
    result.dims.push_back(small[axis] == 0 ? 0 : large[axis] / small[axis]);
    result.steps.push_back(0);
    result.dims.push_back(small[axis]);
    result.steps.push_back(steps[axis]);
  }
  return result;
}

using Repeating = Repetition(const Shape& small, const Shape& large);

std::unique_ptr<Kernel> make_repeat(const KernelRequest& request, Repeating repetition) {
  const Repetition repeated = repetition(request.inputs[0].shape, request.outputs[0].shape);
  return make_strided(request.outputs[0], repeated.dims, repeated.steps);
}

// Sums over repeated elements are made in double, in the order of dY.
std::unique_ptr<Kernel> make_repeat_grad(const KernelRequest& request, Repeating repetition) {
  const Shape& small = request.outputs[0].shape;
  if (small.elements() == request.inputs[0].shape.elements()) return make_copy(request);
  const Repetition repeated = repetition(small, request.inputs[0].shape);
  const Broadcasting<1> walk(repeated.dims, {repeated.steps});
  const auto elements = static_cast<std::size_t>(small.elements());
  return with_real(request.outputs[0].dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    using T = decltype(zero);
    return lambda_kernel(
        [walk, elements](const Arguments& args) {
          auto* sums = reinterpret_cast<double*>(args.scratch);
          std::fill_n(sums, elements, 0.0);
          const std::int64_t step = walk.steps()[0];
          walk.for_runs([&](std::int64_t place, const auto& offsets) {
            const T* dy = args.in<T>(0) + place;
            double* sum = sums + offsets[0];
            for (std::int64_t i = 0; i < walk.length(); ++i) sum[i * step] += static_cast<double>(dy[i]);
          });
          T* dx = args.out<T>(0);
          for (std::size_t i = 0; i < elements; ++i) dx[i] = static_cast<T>(sums[i]);
        },
        elements * sizeof(double));
  });
}

}  // namespace

void add_shape(KernelTable& table) {
  table.add("Copy", {make_copy});
  table.add("Transpose", {make_transpose});
  table.add("TransposeGrad", {make_transpose_grad});
  table.add("Expand", {[](const KernelRequest& request) { return make_repeat(request, expansion); }});
  table.add("ExpandGrad",
            {[](const KernelRequest& request) { return make_repeat_grad(request, expansion); }});
  table.add("Tile", {[](const KernelRequest& request) { return make_repeat(request, tiling); }});
  table.add("TileGrad", {[](const KernelRequest& request) { return make_repeat_grad(request, tiling); }});
}

}  // namespace rookery::eigen
