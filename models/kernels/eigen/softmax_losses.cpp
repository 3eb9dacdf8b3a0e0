// Softmax, the losses, and their gradients.
#include <algorithm>
#include <cmath>

#include "models/kernels/backend.hpp"
#include "models/kernels/eigen/families.hpp"
#include "models/kernels/shapes.hpp"

namespace rookery::eigen {

namespace {

std::int64_t checked_label(const std::int64_t* labels, std::int64_t row, std::int64_t classes) {
  if (labels[row] < 0 || labels[row] >= classes) fail_label(row, labels[row], classes);
  return labels[row];
}

// log(sum(exp(x))) of one row.
double log_sum_exp(const float* x, std::int64_t n) {
  const double peak = *std::max_element(x, x + n);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - peak);
  return peak + std::log(sum);
}

}  // namespace

std::unique_ptr<Kernel> make_softmax(const KernelRequest& request) {
  return lambda_kernel([s = axis_shape(request)](const Arguments& args) {
    for (std::int64_t line = 0; line < s.outer * s.inner; ++line) {
      const std::int64_t begin = line / s.inner * s.size * s.inner + line % s.inner;
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
    }
  });
}

std::unique_ptr<Kernel> make_softmax_grad(const KernelRequest& request) {
  return lambda_kernel([s = axis_shape(request)](const Arguments& args) {
    for (std::int64_t line = 0; line < s.outer * s.inner; ++line) {
      const std::int64_t begin = line / s.inner * s.size * s.inner + line % s.inner;
      const float* dy = args.in(0) + begin;
      const float* y = args.in(1) + begin;
      float* dx = args.out(0) + begin;
      double product = 0;
      for (std::int64_t i = 0; i < s.size; ++i)
        product += static_cast<double>(dy[i * s.inner]) * y[i * s.inner];
      const auto mean = static_cast<float>(product);
      for (std::int64_t i = 0; i < s.size; ++i) dx[i * s.inner] = y[i * s.inner] * (dy[i * s.inner] - mean);
    }
  });
}

std::unique_ptr<Kernel> make_log_softmax(const KernelRequest& request) {
  return lambda_kernel([s = axis_shape(request)](const Arguments& args) {
    for (std::int64_t line = 0; line < s.outer * s.inner; ++line) {
      const std::int64_t begin = line / s.inner * s.size * s.inner + line % s.inner;
      const float* x = args.in(0) + begin;
      float* y = args.out(0) + begin;
      double peak = x[0];
      for (std::int64_t i = 1; i < s.size; ++i) peak = std::max(peak, static_cast<double>(x[i * s.inner]));
      double sum = 0;
      for (std::int64_t i = 0; i < s.size; ++i) sum += std::exp(x[i * s.inner] - peak);
      const double log_sum = peak + std::log(sum);
      for (std::int64_t i = 0; i < s.size; ++i) y[i * s.inner] = static_cast<float>(x[i * s.inner] - log_sum);
    }
  });
}

std::unique_ptr<Kernel> make_log_softmax_grad(const KernelRequest& request) {
  return lambda_kernel([s = axis_shape(request)](const Arguments& args) {
    for (std::int64_t line = 0; line < s.outer * s.inner; ++line) {
      const std::int64_t begin = line / s.inner * s.size * s.inner + line % s.inner;
      const float* dy = args.in(0) + begin;
      const float* y = args.in(1) + begin;
      float* dx = args.out(0) + begin;
      double sum = 0;
      for (std::int64_t i = 0; i < s.size; ++i) sum += dy[i * s.inner];
      for (std::int64_t i = 0; i < s.size; ++i) {
        const double share = std::exp(static_cast<double>(y[i * s.inner])) * sum;
        dx[i * s.inner] = static_cast<float>(dy[i * s.inner] - share);
      }
    }
  });
}

std::unique_ptr<Kernel> make_mse(const KernelRequest& request) {
  return lambda_kernel([s = loss_shape(request)](const Arguments& args) {
    const float* prediction = args.in(0);
    double sum = 0;
    for (std::int64_t row = 0; row < s.rows; ++row) {
      const std::int64_t label = checked_label(args.in<std::int64_t>(1), row, s.classes);
      for (std::int64_t i = 0; i < s.classes; ++i) {
        const double difference = prediction[row * s.classes + i] - (i == label ? 1.0 : 0.0);
        sum += difference * difference;
      }
    }
    *args.out(0) = static_cast<float>(sum / static_cast<double>(s.rows * s.classes));
  });
}

std::unique_ptr<Kernel> make_mse_grad(const KernelRequest& request) {
  return lambda_kernel([s = loss_shape(request)](const Arguments& args) {
    const float* prediction = args.in(0);
    const float factor = 2 * args.context.loss_weight / static_cast<float>(s.rows * s.classes);
    for (std::int64_t row = 0; row < s.rows; ++row) {
      const std::int64_t label = checked_label(args.in<std::int64_t>(1), row, s.classes);
      for (std::int64_t i = 0; i < s.classes; ++i) {
        const std::int64_t place = row * s.classes + i;
        args.out(0)[place] = factor * (prediction[place] - (i == label ? 1.0F : 0.0F));
      }
    }
  });
}

std::unique_ptr<Kernel> make_cross_entropy(const KernelRequest& request) {
  return lambda_kernel([s = loss_shape(request)](const Arguments& args) {
    double sum = 0;
    for (std::int64_t row = 0; row < s.rows; ++row) {
      const std::int64_t label = checked_label(args.in<std::int64_t>(1), row, s.classes);
      const float* logits = args.in(0) + row * s.classes;
      sum += log_sum_exp(logits, s.classes) - logits[label];
    }
    *args.out(0) = static_cast<float>(sum / static_cast<double>(s.rows));
  });
}

std::unique_ptr<Kernel> make_cross_entropy_grad(const KernelRequest& request) {
  return lambda_kernel([s = loss_shape(request)](const Arguments& args) {
    const float factor = args.context.loss_weight / static_cast<float>(s.rows);
    for (std::int64_t row = 0; row < s.rows; ++row) {
      const std::int64_t label = checked_label(args.in<std::int64_t>(1), row, s.classes);
      const float* logits = args.in(0) + row * s.classes;
      const double normalizer = log_sum_exp(logits, s.classes);
      for (std::int64_t i = 0; i < s.classes; ++i) {
        const auto probability = static_cast<float>(std::exp(logits[i] - normalizer));
        args.out(0)[row * s.classes + i] = factor * (probability - (i == label ? 1.0F : 0.0F));
      }
    }
  });
}

}  // namespace rookery::eigen
