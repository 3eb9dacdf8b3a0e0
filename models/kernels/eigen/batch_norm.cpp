// BatchNormalization and its gradient (Ioffe and Szegedy, arXiv 1502.03167), with the running
// statistics of PyTorch. Sums in double.
#include <algorithm>
#include <cmath>

#include "models/graph/ops/batch_norm.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"

namespace rookery::eigen {
namespace {

// Calls visit(place) for every element of a channel.
template <typename Visit>
void for_each_of(const BatchNormShape& s, std::int64_t channel, Visit visit) {
  for (std::int64_t n = 0; n < s.batch; ++n) {
    const std::int64_t begin = (n * s.channels + channel) * s.plane;
    for (std::int64_t i = begin; i < begin + s.plane; ++i) visit(i);
  }
}

void normalize(const BatchNormShape& s, const Arguments& args, std::int64_t c, float mean, float inverse) {
  const float* x = args.in(0);
  float* y = args.out(0);
  const float scale = args.in(1)[c] * inverse;
  const float bias = args.in(2)[c];
  const float* added = args.in(kBatchNormAdded);
  for_each_of(s, c, [&](std::int64_t i) {
    const float value = (x[i] - mean) * scale + bias;
    y[i] = added == nullptr ? value : value + added[i];
  });
}

void run_training(const BatchNormShape& s, const Arguments& args) {
  const float* x = args.in(0);
  const auto count = static_cast<double>(s.batch * s.plane);
  for (std::int64_t c = 0; c < s.channels; ++c) {
    double sum = 0;
    for_each_of(s, c, [&](std::int64_t i) { sum += x[i]; });
    const double mean = sum / count;
    double squares = 0;
    for_each_of(s, c, [&](std::int64_t i) { squares += (x[i] - mean) * (x[i] - mean); });
    const double variance = squares / count;
    const double unbiased = squares / std::max(count - 1, 1.0);
    const auto inverse = static_cast<float>(1 / std::sqrt(variance + s.epsilon));
    normalize(s, args, c, static_cast<float>(mean), inverse);
    const float keep = s.kept();
    if (args.out(1) != nullptr) args.out(1)[c] = keep * args.in(3)[c] + (1 - keep) * static_cast<float>(mean);
    if (args.out(2) != nullptr)
      args.out(2)[c] = keep * args.in(4)[c] + (1 - keep) * static_cast<float>(unbiased);
    args.out(4)[c] = static_cast<float>(mean);
    args.out(5)[c] = inverse;
  }
  if (auto* tracked = args.out<std::int64_t>(3)) *tracked = *args.in<std::int64_t>(5) + 1;
}

std::unique_ptr<Kernel> make_batch_norm(const KernelRequest& request) {
  const BatchNormShape s = batch_norm_shape(request);
  if (s.training) return lambda_kernel([s](const Arguments& args) { run_training(s, args); });
  return lambda_kernel([s](const Arguments& args) {
    for (std::int64_t c = 0; c < s.channels; ++c) {
      normalize(s, args, c, args.in(3)[c], 1 / std::sqrt(args.in(4)[c] + s.epsilon));
    }
  });
}

std::unique_ptr<Kernel> make_batch_norm_grad(const KernelRequest& request) {
  return lambda_kernel([s = batch_norm_shape(request)](const Arguments& args) {
    const float* dy = args.in(0);
    const float* x = args.in(1);
    const auto count = static_cast<double>(s.batch * s.plane);
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const float mean = args.in(3)[c];
      const float inverse = s.inverse(args.in(4)[c]);
      double sum = 0;
      double product = 0;
      for_each_of(s, c, [&](std::int64_t i) {
        sum += dy[i];
        product += static_cast<double>(dy[i]) * (x[i] - mean);
      });
      const double dscale = product * inverse;
      if (args.out(1) != nullptr) args.out(1)[c] = static_cast<float>(dscale);
      if (args.out(2) != nullptr) args.out(2)[c] = static_cast<float>(sum);
      float* dx = args.out(0);
      if (dx == nullptr) continue;
      const float factor = args.in(2)[c] * inverse;
      const auto mean_dy = s.by_running ? 0 : static_cast<float>(sum / count);
      const auto slope = s.by_running ? 0 : static_cast<float>(dscale * inverse / count);
      for_each_of(s, c, [&](std::int64_t i) { dx[i] = factor * (dy[i] - mean_dy - (x[i] - mean) * slope); });
    }
  });
}

}  // namespace

void add_batch_norm(KernelTable& table) {
  table.add("BatchNormalization", {make_batch_norm});
  table.add("BatchNormalizationGrad", {make_batch_norm_grad});
}

}  // namespace rookery::eigen
