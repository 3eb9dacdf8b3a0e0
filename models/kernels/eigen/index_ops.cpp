// Gather, GatherElements, GatherND, ScatterND and their gradients. Indices come from data and are checked one
// by one.

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/ops/element_ranges.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/eigen/moving.hpp"
#include "models/kernels/shapes/broadcasting.hpp"
#include "models/kernels/threads.hpp"

namespace rookery::eigen {
namespace {

// The axis that indices point into.
struct IndexedAxis {
  std::string op;
  std::int64_t size;

  template <typename Index>
  std::int64_t place(Index given, std::int64_t at) const {
    const auto wide = static_cast<std::int64_t>(given);
    if (wide >= 0 && wide < size) return wide;
    if (wide < 0 && wide >= -size) return wide + size;
    throw DataError(
        fmt::format("op '{}': index {} at place {} is not in [{}, {})", op, wide, at, -size, size));
  }
};

IndexedAxis indexed_axis(const Op& op, const Shape& data, int axis) {
  return {op.text("forward", op.name), data[axis]};
}

template <typename Body>
std::unique_ptr<Kernel> with_index(DType type, Body body) {
  if (type == DType::kI32) return body(std::int32_t());
  return body(std::int64_t());
}

// Data [outer, axis, inner], of which whole rows of `inner` are taken.
struct Rows {
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  std::int64_t count = 0;  // of indices
  IndexedAxis axis;
};

Rows rows_of(const Op& op, const Shape& data, const Shape& indices) {
  const int axis = axis_of(op.integer("axis", 0), data.rank());
  Rows rows{.count = indices.elements(), .axis = indexed_axis(op, data, axis)};
  for (int i = 0; i < axis; ++i) rows.outer *= data[i];
  for (int i = axis + 1; i < data.rank(); ++i) rows.inner *= data[i];
  return rows;
}

std::unique_ptr<Kernel> make_gather(const KernelRequest& request) {
  const Rows rows = rows_of(request.op, request.inputs[0].shape, request.inputs[1].shape);
  const std::int64_t bytes = rows.inner * static_cast<std::int64_t>(bytes_of(request.inputs[0].dtype));
  return with_index(request.inputs[1].dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    using Index = decltype(zero);
    return lambda_kernel([rows, bytes](const Arguments& args) {
      const auto* data = args.in<std::byte>(0);
      const Index* indices = args.in<Index>(1);
      std::byte* y = args.out<std::byte>(0);
      in_runs(rows.outer * rows.count, bytes, [&](std::int64_t first, std::int64_t count) {
        for (std::int64_t row = first; row < first + count; ++row) {
          const std::int64_t i = row % rows.count;
          const std::int64_t place = row / rows.count * rows.axis.size + rows.axis.place(indices[i], i);
          if (bytes > 0) std::memcpy(y + row * bytes, data + place * bytes, bytes);
        }
      });
    });
  });
}

// Rows that were taken several times are summed in the order of dY: threads share their elements.
std::unique_ptr<Kernel> make_gather_grad(const KernelRequest& request) {
  const TensorType& data = request.outputs[0];
  const Rows rows = rows_of(request.op, data.shape, request.inputs[1].shape);
  const std::int64_t padding = request.op.integer("padding_idx", -1);
  return with_index(request.inputs[1].dtype, [&](auto index_zero) -> std::unique_ptr<Kernel> {
    using Index = decltype(index_zero);
    return with_real(data.dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
      using T = decltype(zero);
      return lambda_kernel([rows, padding, n = data.shape.elements()](const Arguments& args) {
        const Index* indices = args.in<Index>(1);
        T* gradients = args.out<T>(0);
        in_runs(n, 1,
                [&](std::int64_t first, std::int64_t count) { std::fill_n(gradients + first, count, T(0)); });
        constexpr std::int64_t kLine = 64 / sizeof(T);  // that no two threads write
        in_runs(
            rows.inner, rows.outer * rows.count,
            [&](std::int64_t first, std::int64_t count) {
              const T* dy = args.in<T>(0) + first;
              T* gradient = gradients + first;
              for (std::int64_t o = 0; o < rows.outer; ++o, gradient += rows.axis.size * rows.inner) {
                for (std::int64_t i = 0; i < rows.count; ++i, dy += rows.inner) {
                  const std::int64_t place = rows.axis.place(indices[i], i);
                  if (place == padding) continue;
                  T* sum = gradient + place * rows.inner;
                  for (std::int64_t k = 0; k < count; ++k) sum[k] += dy[k];
                }
              }
            },
            kLine);
      });
    });
  });
}

// A walk over the indices, beside the elements of the data at place 0 of the axis.
struct Elements {
  Broadcasting<1> walk;
  std::int64_t step;  // along the axis
  IndexedAxis axis;
};

Elements elements_of(const Op& op, const Shape& data, const Shape& indices) {
  const int axis = axis_of(op.integer("axis", 0), data.rank());
  std::vector<std::int64_t> steps = steps_of(data);
  const std::int64_t step = std::exchange(steps[axis], 0);
  return {Broadcasting<1>(dims_of(indices), {steps}), step, indexed_axis(op, data, axis)};
}

std::unique_ptr<Kernel> make_gather_elements(const KernelRequest& request) {
  const Elements elements = elements_of(request.op, request.inputs[0].shape, request.inputs[1].shape);
  return with_index(request.inputs[1].dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    using Index = decltype(zero);
    return with_element_size(request.inputs[0].dtype, [&](auto size) -> std::unique_ptr<Kernel> {
      return lambda_kernel([elements](const Arguments& args) {
        constexpr std::size_t kBytes = decltype(size)::value;
        constexpr auto kSize = static_cast<std::int64_t>(kBytes);
        const Index* indices = args.in<Index>(1);
        elements.walk.for_runs([&](std::int64_t run, const auto& offsets) {
          for (std::int64_t i = 0; i < elements.walk.length(); ++i) {
            const std::int64_t place = elements.axis.place(indices[run + i], run + i);
            const std::int64_t from = offsets[0] + i * elements.walk.steps()[0] + place * elements.step;
            std::memcpy(args.out<std::byte>(0) + (run + i) * kSize, args.in<std::byte>(0) + from * kSize,
                        kBytes);
          }
        });
      });
    });
  });
}

std::unique_ptr<Kernel> make_gather_elements_grad(const KernelRequest& request) {
  const TensorType& data = request.outputs[0];
  const Elements elements = elements_of(request.op, data.shape, request.inputs[1].shape);
  return with_index(request.inputs[1].dtype, [&](auto index_zero) -> std::unique_ptr<Kernel> {
    using Index = decltype(index_zero);
    return with_real(data.dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
      using T = decltype(zero);
      return lambda_kernel([elements, n = data.shape.elements()](const Arguments& args) {
        const Index* indices = args.in<Index>(1);
        T* gradient = args.out<T>(0);
        std::fill_n(gradient, n, T(0));
        elements.walk.for_runs([&](std::int64_t run, const auto& offsets) {
          for (std::int64_t i = 0; i < elements.walk.length(); ++i) {
            const std::int64_t place = elements.axis.place(indices[run + i], run + i);
            gradient[offsets[0] + i * elements.walk.steps()[0] + place * elements.step] +=
                args.in<T>(0)[run + i];
          }
        });
      });
    });
  });
}

// Points of `axes.size()` indices, `count` in each of `batches`, and the slice of `inner` elements at each.
struct Points {
  std::int64_t batches = 1;
  std::int64_t count = 1;
  std::int64_t inner = 1;
  std::int64_t data = 1;  // elements of a batch's data
  std::vector<IndexedAxis> axes;
  std::vector<std::int64_t> steps;  // along the axes

  // visit(first element of the slice in the data, first element among the slices), in the points' order.
  template <typename Index, typename Visit>
  void for_each(const Index* indices, Visit visit) const {
    const auto depth = std::ssize(axes);
    for (std::int64_t point = 0; point < batches * count; ++point) {
      std::int64_t from = point / count * data;
      for (std::int64_t i = 0; i < depth; ++i) {
        const auto axis = static_cast<std::size_t>(i);
        from += axes[axis].place(indices[point * depth + i], point * depth + i) * steps[axis];
      }
      visit(from, point * inner);
    }
  }
};

Points points_of(const Op& op, const Shape& data, const Shape& indices) {
  const auto batch_dims = static_cast<int>(op.integer("batch_dims", 0));
  const auto depth = static_cast<int>(indices[-1]);
  const std::vector<std::int64_t> steps = steps_of(data);
  Points points;
  for (int i = 0; i < batch_dims; ++i) points.batches *= data[i];
  for (int i = batch_dims; i + 1 < indices.rank(); ++i) points.count *= indices[i];
  for (int i = batch_dims; i < data.rank(); ++i) points.data *= data[i];
  for (int i = batch_dims; i < batch_dims + depth; ++i) {
    points.axes.push_back(indexed_axis(op, data, i));
    points.steps.push_back(steps[i]);
  }
  for (int i = batch_dims + depth; i < data.rank(); ++i) points.inner *= data[i];
  return points;
}

// GatherND, and the gradient of ScatterND's updates, which it is.
std::unique_ptr<Kernel> make_gather_nd(const KernelRequest& request) {
  const Points points = points_of(request.op, request.inputs[0].shape, request.inputs[1].shape);
  const auto size = static_cast<std::int64_t>(bytes_of(request.inputs[0].dtype));
  return with_index(request.inputs[1].dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    using Index = decltype(zero);
    return lambda_kernel([points, size](const Arguments& args) {
      const auto bytes = static_cast<std::size_t>(points.inner * size);
      if (bytes == 0) return;
      points.for_each(args.in<Index>(1), [&](std::int64_t from, std::int64_t to) {
        std::memcpy(args.out<std::byte>(0) + to * size, args.in<std::byte>(0) + from * size, bytes);
      });
    });
  });
}

// Slices at the same point are summed in the order of dY.
std::unique_ptr<Kernel> make_gather_nd_grad(const KernelRequest& request) {
  const TensorType& data = request.outputs[0];
  const Points points = points_of(request.op, data.shape, request.inputs[1].shape);
  return with_index(request.inputs[1].dtype, [&](auto index_zero) -> std::unique_ptr<Kernel> {
    using Index = decltype(index_zero);
    return with_real(data.dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
      using T = decltype(zero);
      return lambda_kernel([points, n = data.shape.elements()](const Arguments& args) {
        T* gradient = args.out<T>(0);
        std::fill_n(gradient, n, T(0));
        points.for_each(args.in<Index>(1), [&](std::int64_t from, std::int64_t to) {
          for (std::int64_t i = 0; i < points.inner; ++i) gradient[from + i] += args.in<T>(0)[to + i];
        });
      });
    });
  });
}

template <typename T, typename Index>
void add_slices(const Points& points, const Arguments& args) {
  // Whole numbers wrap around, as in Add.
  using Sum =
      typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  points.for_each(args.in<Index>(1), [&](std::int64_t from, std::int64_t to) {
    T* sums = args.out<T>(0) + from;
    for (std::int64_t i = 0; i < points.inner; ++i)
      sums[i] = static_cast<T>(static_cast<Sum>(sums[i]) + static_cast<Sum>(args.in<T>(2)[to + i]));
  });
}

template <typename Index>
void add_slices(DType type, const Points& points, const Arguments& args) {
  if (type == DType::kF32) return add_slices<float, Index>(points, args);
  if (type == DType::kF64) return add_slices<double, Index>(points, args);
  if (type == DType::kI32) return add_slices<std::int32_t, Index>(points, args);
  add_slices<std::int64_t, Index>(points, args);
}

// Updates in their order: at the same point the last is written, or all are added.
std::unique_ptr<Kernel> make_scatter_nd(const KernelRequest& request) {
  const TensorType data = request.inputs[0];
  const Points points = points_of(request.op, data.shape, request.inputs[1].shape);
  const bool adds = request.op.text("reduction", "none") == "add";
  return with_index(request.inputs[1].dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    using Index = decltype(zero);
    return lambda_kernel([points, data, adds](const Arguments& args) {
      std::copy_n(args.in<std::byte>(0), data.bytes(), args.out<std::byte>(0));
      if (adds) return add_slices<Index>(data.dtype, points, args);
      const auto size = static_cast<std::int64_t>(bytes_of(data.dtype));
      const auto bytes = static_cast<std::size_t>(points.inner * size);
      if (bytes == 0) return;
      points.for_each(args.in<Index>(1), [&](std::int64_t from, std::int64_t to) {
        std::memcpy(args.out<std::byte>(0) + from * size, args.in<std::byte>(2) + to * size, bytes);
      });
    });
  });
}

std::unique_ptr<Kernel> make_scatter_nd_grad_data(const KernelRequest& request) {
  const TensorType data = request.outputs[0];
  const Points points = points_of(request.op, data.shape, request.inputs[1].shape);
  return with_index(request.inputs[1].dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    using Index = decltype(zero);
    return lambda_kernel(
        [points, data, size = static_cast<std::int64_t>(bytes_of(data.dtype))](const Arguments& args) {
          std::copy_n(args.in<std::byte>(0), data.bytes(), args.out<std::byte>(0));
          const auto bytes = static_cast<std::size_t>(points.inner * size);
          points.for_each(args.in<Index>(1), [&](std::int64_t from, std::int64_t) {
            std::memset(args.out<std::byte>(0) + from * size, 0, bytes);
          });
        });
  });
}

}  // namespace

void add_indexing(KernelTable& table) {
  table.add("Gather", {make_gather});
  table.add("GatherGrad", {make_gather_grad});
  table.add("GatherElements", {make_gather_elements});
  table.add("GatherElementsGrad", {make_gather_elements_grad});
  table.add("GatherND", {make_gather_nd});
  table.add("GatherNDGrad", {make_gather_nd_grad});
  table.add("ScatterND", {make_scatter_nd});
  table.add("ScatterNDGradData", {make_scatter_nd_grad_data});
  table.add("ScatterNDGradUpdates", {make_gather_nd});
}

}  // namespace rookery::eigen
