// Softmax, LogSoftmax and their gradients.
#include <algorithm>
#include <cmath>

#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"

namespace rookery::eigen {
namespace {

// A kernel that runs line(where element 0 of a line along the axis lies, args) for every line.
template <typename Line>
std::unique_ptr<Kernel> line_kernel(const AxisShape& s, Line line) {
  return lambda_kernel([s, line](const Arguments& args) {
    if (s.size == 0) return;
    for (std::int64_t i = 0; i < s.outer * s.inner; ++i)
      line(i / s.inner * s.size * s.inner + i % s.inner, args);
  });
}

std::unique_ptr<Kernel> make_softmax(const KernelRequest& request) {
  const AxisShape s = axis_shape(request);
  return line_kernel(s, [s](std::int64_t begin, const Arguments& args) {
    const float* x = args.in(0) + begin;
    float* y = args.out(0) + begin;
    float peak = x[0];
    for (std::int64_t i = 1; i < s.size; ++i) peak = std::max(peak, x[i * s.inner]);
    double sum = 0;
    for (std::int64_t i = 0; i < s.size; ++i) {
      y[i * s.inner] = std::exp(x[i * s.inner] - peak);
      sum += y[i * s.inner];
    }
    const auto factor = static_cast<float>(1 / sum);
    for (std::int64_t i = 0; i < s.size; ++i) y[i * s.inner] *= factor;
  });
}

std::unique_ptr<Kernel> make_softmax_grad(const KernelRequest& request) {
  const AxisShape s = axis_shape(request);
  return line_kernel(s, [s](std::int64_t begin, const Arguments& args) {
    const float* dy = args.in(0) + begin;
    const float* y = args.in(1) + begin;
    float* dx = args.out(0) + begin;
    double product = 0;
    bool is_used = false;
    for (std::int64_t i = 0; i < s.size; ++i) {
      product += static_cast<double>(dy[i * s.inner]) * y[i * s.inner];
      is_used |= dy[i * s.inner] != 0;
    }
    if (!is_used) {
      for (std::int64_t i = 0; i < s.size; ++i) dx[i * s.inner] = 0;
      return;
    }
    const auto mean = static_cast<float>(product);
    for (std::int64_t i = 0; i < s.size; ++i) dx[i * s.inner] = y[i * s.inner] * (dy[i * s.inner] - mean);
  });
}

std::unique_ptr<Kernel> make_log_softmax(const KernelRequest& request) {
  const AxisShape s = axis_shape(request);
  return line_kernel(s, [s](std::int64_t begin, const Arguments& args) {
    const float* x = args.in(0) + begin;
    float* y = args.out(0) + begin;
    double peak = x[0];
    for (std::int64_t i = 1; i < s.size; ++i) peak = std::max(peak, static_cast<double>(x[i * s.inner]));
    double sum = 0;
    for (std::int64_t i = 0; i < s.size; ++i) sum += std::exp(x[i * s.inner] - peak);
    const double log_sum = peak + std::log(sum);
    for (std::int64_t i = 0; i < s.size; ++i) y[i * s.inner] = static_cast<float>(x[i * s.inner] - log_sum);
  });
}

std::unique_ptr<Kernel> make_log_softmax_grad(const KernelRequest& request) {
  const AxisShape s = axis_shape(request);
  return line_kernel(s, [s](std::int64_t begin, const Arguments& args) {
    const float* dy = args.in(0) + begin;
    const float* y = args.in(1) + begin;
    float* dx = args.out(0) + begin;
    double sum = 0;
    for (std::int64_t i = 0; i < s.size; ++i) sum += dy[i * s.inner];
    for (std::int64_t i = 0; i < s.size; ++i) {
      const double share = std::exp(static_cast<double>(y[i * s.inner])) * sum;
      dx[i * s.inner] = static_cast<float>(dy[i * s.inner] - share);
    }
  });
}

}  // namespace

void add_softmax(KernelTable& table) {
  table.add("Softmax", {make_softmax});
  table.add("SoftmaxGrad", {make_softmax_grad});
  table.add("LogSoftmax", {make_log_softmax});
  table.add("LogSoftmaxGrad", {make_log_softmax_grad});
}

}  // namespace rookery::eigen
