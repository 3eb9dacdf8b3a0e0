// Gather, GatherElements and their gradients. Indices come from data and are checked one by one.
#include <fmt/format.h>

#include <algorithm>

#include "models/base/error.hpp"
#include "models/graph/regions.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/broadcasting.hpp"
#include "models/kernels/eigen/families.hpp"
#include "models/kernels/eigen/moving.hpp"

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
      for (std::int64_t o = 0; o < rows.outer; ++o, data += rows.axis.size * bytes) {
        for (std::int64_t i = 0; i < rows.count; ++i, y += bytes) {
          const std::int64_t place = rows.axis.place(indices[i], i);
          if (bytes > 0) std::memcpy(y, data + place * bytes, static_cast<std::size_t>(bytes));
        }
      }
    });
  });
}

// Rows that were taken several times are summed in the order of dY.
std::unique_ptr<Kernel> make_gather_grad(const KernelRequest& request) {
  const TensorType& data = request.outputs[0];
  const Rows rows = rows_of(request.op, data.shape, request.inputs[1].shape);
  const std::int64_t padding = request.op.integer("padding_idx", -1);
  return with_index(request.inputs[1].dtype, [&](auto index_zero) -> std::unique_ptr<Kernel> {
    using Index = decltype(index_zero);
    return with_real(data.dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
      using T = decltype(zero);
      return lambda_kernel([rows, padding, n = data.shape.elements()](const Arguments& args) {
        const T* dy = args.in<T>(0);
        const Index* indices = args.in<Index>(1);
        T* gradient = args.out<T>(0);
        std::fill_n(gradient, n, T(0));
        for (std::int64_t o = 0; o < rows.outer; ++o, gradient += rows.axis.size * rows.inner) {
          for (std::int64_t i = 0; i < rows.count; ++i, dy += rows.inner) {
            const std::int64_t place = rows.axis.place(indices[i], i);
            if (place == padding) continue;
            T* sum = gradient + place * rows.inner;
            for (std::int64_t k = 0; k < rows.inner; ++k) sum[k] += dy[k];
          }
        }
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
  const std::int64_t step = std::exchange(steps[static_cast<std::size_t>(axis)], 0);
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

}  // namespace

void add_indexing(Makers& makers) {
  makers.emplace("Gather", make_gather);
  makers.emplace("GatherGrad", make_gather_grad);
  makers.emplace("GatherElements", make_gather_elements);
  makers.emplace("GatherElementsGrad", make_gather_elements_grad);
}

}  // namespace rookery::eigen
