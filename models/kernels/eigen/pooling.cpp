// MaxPool, AveragePool and GlobalAveragePool over planes, and their gradients.
#include <algorithm>
#include <cmath>
#include <limits>

#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"

namespace rookery::eigen {
namespace {

struct Best {
  float value = -std::numeric_limits<float>::infinity();
  std::int64_t index = -1;
};

// The elements of a window that starts at `start` which lie in [0, size): from `begin` up to `end`.
struct Taps {
  std::int64_t begin, end;
};

Taps taps_inside(const Window& window, std::size_t axis, std::int64_t start, std::int64_t size) {
  const std::int64_t dilation = window.dilation[axis];
  const auto until = [&](std::int64_t place) {
    return place <= start ? 0 : (place - start - 1) / dilation + 1;
  };
  return {until(0), std::min(window.kernel[axis], until(size))};
}

// The maximum of the window whose first place is (top, left), which may lie in the padding. A NaN wins over
// every number, so that it stays visible.
Best best_of(const PoolShape& s, const float* plane, std::int64_t top, std::int64_t left) {
  const Window& window = s.window;
  const Taps rows = taps_inside(window, 0, top, s.in_h);
  const Taps columns = taps_inside(window, 1, left, s.in_w);
  Best best;
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    const float* row = plane + (top + i * window.dilation[0]) * s.in_w;
    for (std::int64_t j = columns.begin; j < columns.end; ++j) {
      const float value = row[left + j * window.dilation[1]];
      if (best.index < 0 || value > best.value || std::isnan(value)) {
        best = {value, i * window.kernel[1] + j};
      }
    }
  }
  return best;
}

// Calls visit(output place, plane, top, left) for every window.
template <typename Visit>
void for_each_window(const PoolShape& s, Visit visit) {
  std::int64_t place = 0;
  for (std::int64_t plane = 0; plane < s.planes; ++plane) {
    for (std::int64_t i = 0; i < s.out_h; ++i) {
      for (std::int64_t j = 0; j < s.out_w; ++j, ++place) {
        visit(place, plane, i * s.window.stride[0] - s.window.pad_begin[0],
              j * s.window.stride[1] - s.window.pad_begin[1]);
      }
    }
  }
}

template <typename Index>
std::unique_ptr<Kernel> max_pool(const PoolShape& s) {
  return lambda_kernel([s](const Arguments& args) {
    float* y = args.out(0);
    auto* window = args.out<Index>(1);
    for_each_window(s, [&](std::int64_t place, std::int64_t plane, std::int64_t top, std::int64_t left) {
      const Best best = best_of(s, args.in(0) + plane * s.in_plane(), top, left);
      y[place] = best.value;
      if (window != nullptr) window[place] = static_cast<Index>(best.index);
    });
  });
}

template <typename Index>
std::unique_ptr<Kernel> max_pool_grad(const PoolShape& s) {
  return lambda_kernel([s](const Arguments& args) {
    const float* dy = args.in(0);
    const auto* window = args.in<Index>(1);
    float* dx = args.out(0);
    std::fill_n(dx, s.planes * s.in_plane(), 0.0F);
    for_each_window(s, [&](std::int64_t place, std::int64_t plane, std::int64_t top, std::int64_t left) {
      const std::int64_t row = top + window[place] / s.window.kernel[1] * s.window.dilation[0];
      const std::int64_t column = left + window[place] % s.window.kernel[1] * s.window.dilation[1];
      dx[plane * s.in_plane() + row * s.in_w + column] += dy[place];
    });
  });
}

// The windows of an average pool.
struct Averages {
  PoolShape s;
  std::vector<Averaged> rows, columns;

  explicit Averages(const KernelRequest& request)
      : s(pool_shape(request)), rows(averaged(request, s, 0)), columns(averaged(request, s, 1)) {}

  // Calls visit(output place, input plane, rows, columns) for every window.
  template <typename Visit>
  void for_each(Visit visit) const {
    std::int64_t place = 0;
    for (std::int64_t plane = 0; plane < s.planes; ++plane) {
      for (const Averaged& row : rows) {
        for (const Averaged& column : columns) visit(place++, plane * s.in_plane(), row, column);
      }
    }
  }
};

std::unique_ptr<Kernel> make_max_pool(const KernelRequest& request) {
  const PoolShape s = pool_shape(request);
  const bool wide = request.outputs.size() > 1 && request.outputs[1].dtype == DType::kI32;
  return wide ? max_pool<std::int32_t>(s) : max_pool<std::uint8_t>(s);
}

std::unique_ptr<Kernel> make_max_pool_grad(const KernelRequest& request) {
  const PoolShape s = pool_shape(request);
  const bool wide = request.inputs[1].dtype == DType::kI32;
  return wide ? max_pool_grad<std::int32_t>(s) : max_pool_grad<std::uint8_t>(s);
}

std::unique_ptr<Kernel> make_average_pool(const KernelRequest& request) {
  return lambda_kernel([a = Averages(request)](const Arguments& args) {
    a.for_each([&](std::int64_t place, std::int64_t plane, const Averaged& rows, const Averaged& columns) {
      double sum = 0;
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        const float* row = args.in(0) + plane + i * a.s.in_w;
        for (std::int64_t j = columns.begin; j < columns.end; ++j) sum += row[j];
      }
      args.out(0)[place] = static_cast<float>(sum / static_cast<double>(rows.count * columns.count));
    });
  });
}

std::unique_ptr<Kernel> make_average_pool_grad(const KernelRequest& request) {
  return lambda_kernel([a = Averages(request)](const Arguments& args) {
    std::fill_n(args.out(0), a.s.planes * a.s.in_plane(), 0.0F);
    a.for_each([&](std::int64_t place, std::int64_t plane, const Averaged& rows, const Averaged& columns) {
      const float share = args.in(0)[place] / static_cast<float>(rows.count * columns.count);
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        float* row = args.out(0) + plane + i * a.s.in_w;
        for (std::int64_t j = columns.begin; j < columns.end; ++j) row[j] += share;
      }
    });
  });
}

}  // namespace

void add_pooling(KernelTable& table) {
  table.add("MaxPool", {make_max_pool});
  table.add("MaxPoolGrad", {make_max_pool_grad});
  table.add("AveragePool", {make_average_pool});
  table.add("AveragePoolGrad", {make_average_pool_grad});
  table.add("GlobalAveragePool", {make_average_pool});
  table.add("GlobalAveragePoolGrad", {make_average_pool_grad});
}

}  // namespace rookery::eigen
