// MaxPool over planes, and its gradient. A NaN wins over every number, so that it stays visible.
#include <algorithm>
#include <cmath>
#include <limits>

#include "models/kernels/backend.hpp"
#include "models/kernels/eigen/families.hpp"
#include "models/kernels/shapes.hpp"

namespace rookery::eigen {

namespace {

struct Best {
  float value = -std::numeric_limits<float>::infinity();
  std::int64_t index = -1;
};

// The maximum of the window whose first place is (top, left), which may lie in the padding.
Best best_of(const PoolShape& s, const float* plane, std::int64_t top, std::int64_t left) {
  const std::int64_t kernel_w = s.window.kernel[1];
  Best best;
  for (std::int64_t i = std::max<std::int64_t>(-top, 0); i < std::min(s.window.kernel[0], s.in_h - top);
       ++i) {
    for (std::int64_t j = std::max<std::int64_t>(-left, 0); j < std::min(kernel_w, s.in_w - left); ++j) {
      const float value = plane[(top + i) * s.in_w + left + j];
      if (best.index < 0 || value > best.value || std::isnan(value)) best = {value, i * kernel_w + j};
    }
  }
  return best;
}

}  // namespace

std::unique_ptr<Kernel> make_max_pool(const KernelRequest& request) {
  return lambda_kernel([s = pool_shape(request)](const Arguments& args) {
    float* y = args.out(0);
    auto* window = args.out<std::uint8_t>(1);
    std::int64_t place = 0;
    for (std::int64_t p = 0; p < s.planes; ++p) {
      const float* plane = args.in(0) + p * s.in_h * s.in_w;
      for (std::int64_t i = 0; i < s.out_h; ++i) {
        for (std::int64_t j = 0; j < s.out_w; ++j, ++place) {
          const Best best = best_of(s, plane, i * s.window.stride[0] - s.window.pad_begin[0],
                                    j * s.window.stride[1] - s.window.pad_begin[1]);
          y[place] = best.value;
          if (window != nullptr) window[place] = static_cast<std::uint8_t>(best.index);
        }
      }
    }
  });
}

std::unique_ptr<Kernel> make_max_pool_grad(const KernelRequest& request) {
  return lambda_kernel([s = pool_shape(request)](const Arguments& args) {
    const float* dy = args.in(0);
    const auto* window = args.in<std::uint8_t>(1);
    float* dx = args.out(0);
    std::fill_n(dx, s.planes * s.in_h * s.in_w, 0.0F);
    std::int64_t place = 0;
    for (std::int64_t p = 0; p < s.planes; ++p) {
      float* plane = dx + p * s.in_h * s.in_w;
      for (std::int64_t i = 0; i < s.out_h; ++i) {
        for (std::int64_t j = 0; j < s.out_w; ++j, ++place) {
          const std::int64_t row =
              i * s.window.stride[0] - s.window.pad_begin[0] + window[place] / s.window.kernel[1];
          const std::int64_t column =
              j * s.window.stride[1] - s.window.pad_begin[1] + window[place] % s.window.kernel[1];
          plane[row * s.in_w + column] += dy[place];
        }
      }
    }
  });
}

}  // namespace rookery::eigen
