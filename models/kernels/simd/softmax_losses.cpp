// Softmax along the last axis, the losses, and their gradients.
#include <algorithm>
#include <cmath>

#include "models/kernels/backend.hpp"
#include "models/kernels/shapes.hpp"
#include "models/kernels/simd/families.hpp"
#include "models/kernels/simd/loops/loops.hpp"

namespace rookery::simd {

namespace {

Index checked_label(const std::int64_t* labels, Index row, Index classes) {
  if (labels[row] < 0 || labels[row] >= classes) fail_label(row, labels[row], classes);
  return labels[row];
}

// log(sum(exp(x))) of one row.
float log_sum_exp(const Loops& all, Index n, const float* x) {
  const float peak = *std::max_element(x, x + n);
  return peak + std::log(all.sum_exp(n, x, peak));
}

}  // namespace

std::unique_ptr<Kernel> make_softmax(const KernelRequest& request) {
  const AxisShape s = axis_shape(request);
  if (s.inner != 1) return nullptr;
  return lambda_kernel(
      [s, &all = loops()](const Arguments& args) { all.softmax(s.outer, s.size, args.in(0), args.out(0)); });
}

std::unique_ptr<Kernel> make_softmax_grad(const KernelRequest& request) {
  const AxisShape s = axis_shape(request);
  if (s.inner != 1) return nullptr;
  return lambda_kernel([s, &all = loops()](const Arguments& args) {
    all.softmax_grad(s.outer, s.size, args.in(0), args.in(1), args.out(0));
  });
}

// Sums of squares row by row in double; one-hot vectors are zero but for one place.
std::unique_ptr<Kernel> make_mse(const KernelRequest& request) {
  return lambda_kernel([s = loss_shape(request)](const Arguments& args) {
    double sum = 0;
    for (Index row = 0; row < s.rows; ++row) {
      const Index label = checked_label(args.in<std::int64_t>(1), row, s.classes);
      const float* prediction = args.in(0) + row * s.classes;
      float squares = 0;
      for (Index i = 0; i < s.classes; ++i) {
        const float difference = prediction[i] - (i == label ? 1.0F : 0.0F);
        squares += difference * difference;
      }
      sum += static_cast<double>(squares);
    }
    *args.out(0) = static_cast<float>(sum / static_cast<double>(s.rows * s.classes));
  });
}

std::unique_ptr<Kernel> make_mse_grad(const KernelRequest& request) {
  return lambda_kernel([s = loss_shape(request)](const Arguments& args) {
    const float factor = 2 * args.context.loss_weight / static_cast<float>(s.rows * s.classes);
    for (Index i = 0; i < s.rows * s.classes; ++i) args.out(0)[i] = factor * args.in(0)[i];
    for (Index row = 0; row < s.rows; ++row) {
      const Index place = row * s.classes + checked_label(args.in<std::int64_t>(1), row, s.classes);
      args.out(0)[place] = factor * (args.in(0)[place] - 1);
    }
  });
}

std::unique_ptr<Kernel> make_cross_entropy(const KernelRequest& request) {
  return lambda_kernel([s = loss_shape(request), &all = loops()](const Arguments& args) {
    double sum = 0;
    for (Index row = 0; row < s.rows; ++row) {
      const Index label = checked_label(args.in<std::int64_t>(1), row, s.classes);
      const float* logits = args.in(0) + row * s.classes;
      sum += static_cast<double>(log_sum_exp(all, s.classes, logits) - logits[label]);
    }
    *args.out(0) = static_cast<float>(sum / static_cast<double>(s.rows));
  });
}

std::unique_ptr<Kernel> make_cross_entropy_grad(const KernelRequest& request) {
  return lambda_kernel([s = loss_shape(request), &all = loops()](const Arguments& args) {
    const float factor = args.context.loss_weight / static_cast<float>(s.rows);
    for (Index row = 0; row < s.rows; ++row) {
      const Index label = checked_label(args.in<std::int64_t>(1), row, s.classes);
      const float* logits = args.in(0) + row * s.classes;
      float* gradient = args.out(0) + row * s.classes;
      const float normalizer = log_sum_exp(all, s.classes, logits);
      all.scaled_exp(s.classes, logits, normalizer, factor, gradient);
      gradient[label] -= factor;
    }
  });
}

}  // namespace rookery::simd
