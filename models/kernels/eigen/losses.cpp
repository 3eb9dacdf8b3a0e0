// Losses and their gradients.
#include <algorithm>
#include <cmath>
#include <vector>

#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"

namespace rookery::eigen {
namespace {

// Every `stride`th of n numbers.
struct Strided {
  const float* data;
  std::int64_t n, stride;
  double operator[](std::int64_t i) const { return static_cast<double>(data[i * stride]); }
};

Strided scores_of(const LossShape& s, const float* prediction, std::int64_t position) {
  return {prediction + s.begin(position), s.classes, s.inner};
}

double log_sum_exp(const Strided& x) {
  double peak = x[0];
  for (std::int64_t i = 1; i < x.n; ++i) peak = std::max(peak, x[i]);
  double sum = 0;
  for (std::int64_t i = 0; i < x.n; ++i) sum += std::exp(x[i] - peak);
  return peak + std::log(sum);
}

// Is the label's score the first of the largest?
bool is_hit(const Strided& x, std::int64_t label) {
  for (std::int64_t i = 0; i < x.n; ++i) {
    const bool is_less = i < label ? x[i] < x[label] : x[i] <= x[label];
    if (!is_less) return false;
  }
  return true;
}

// The target of a class: what the labels or probabilities say, smoothed.
double smoothed(const LossShape& s, double target) {
  const auto share = static_cast<double>(s.smoothing);
  return target * (1 - share) + share / static_cast<double>(s.classes);
}

// ---- Of classes ------------------------------------------------------------------------------------

std::unique_ptr<Kernel> make_cross_entropy(const KernelRequest& request) {
  return lambda_kernel([s = loss_shape(request)](const Arguments& args) {
    const auto* labels = args.in<std::int64_t>(1);
    const auto* counted = args.in<std::int64_t>(3);
    double sum = 0;
    std::int64_t seen = 0;
    std::int64_t correct = 0;
    for (std::int64_t position = 0; position < s.positions(); ++position) {
      const Strided x = scores_of(s, args.in(0), position);
      const double normalizer = log_sum_exp(x);
      if (args.out(2) != nullptr) args.out(2)[position] = static_cast<float>(normalizer);
      if (s.indices && !s.counts(labels, position)) continue;
      for (std::int64_t c = 0; c < s.classes; ++c) {
        const double target =
            s.indices ? (c == labels[position] ? 1.0 : 0.0) : scores_of(s, args.in(1), position)[c];
        if (const double share = smoothed(s, target); share != 0) sum += share * (normalizer - x[c]);
      }
      ++seen;
      if (s.indices && is_hit(x, labels[position])) ++correct;
    }
    write_hits(args.out<std::int64_t>(1), correct, seen, counted);
    *args.out(0) = loss_of_sum(sum, s.positions(), counted, args.context);
  });
}

std::unique_ptr<Kernel> make_cross_entropy_grad(const KernelRequest& request) {
  return lambda_kernel([s = loss_shape(request)](const Arguments& args) {
    const auto* labels = args.in<std::int64_t>(1);
    const auto factor =
        static_cast<double>(gradient_factor(s, s.positions(), args.in<std::int64_t>(3), args.context));
    for (std::int64_t position = 0; position < s.positions(); ++position) {
      const Strided x = scores_of(s, args.in(0), position);
      float* gradient = args.out(0) + s.begin(position);
      const bool counts = !s.indices || s.counts(labels, position);
      const auto normalizer = static_cast<double>(args.in(2)[position]);
      const auto target = [&](std::int64_t c) {
        return smoothed(
            s, s.indices ? (c == labels[position] ? 1.0 : 0.0) : scores_of(s, args.in(1), position)[c]);
      };
      double total = s.indices ? 1 : 0;
      for (std::int64_t c = 0; !s.indices && c < s.classes; ++c) total += target(c);
      for (std::int64_t c = 0; c < s.classes; ++c) {
        const double slope = counts ? total * std::exp(x[c] - normalizer) - target(c) : 0;
        gradient[c * s.inner] = static_cast<float>(factor * slope);
      }
    }
  });
}

// Mean squared error to one-hot vectors.
std::unique_ptr<Kernel> make_one_hot(const LossShape& s) {
  return lambda_kernel([s](const Arguments& args) {
    const auto* labels = args.in<std::int64_t>(1);
    double sum = 0;
    std::int64_t correct = 0;
    for (std::int64_t row = 0; row < s.outer; ++row) {
      s.counts(labels, row);
      const Strided x = scores_of(s, args.in(0), row);
      for (std::int64_t c = 0; c < s.classes; ++c) {
        const double difference = x[c] - (c == labels[row] ? 1.0 : 0.0);
        sum += difference * difference;
      }
      if (is_hit(x, labels[row])) ++correct;
    }
    write_hits(args.out<std::int64_t>(1), correct, s.outer, nullptr);
    *args.out(0) = loss_of_sum(sum, s.elements(), nullptr, args.context);
  });
}

std::unique_ptr<Kernel> make_one_hot_grad(const LossShape& s) {
  return lambda_kernel([s](const Arguments& args) {
    const auto* labels = args.in<std::int64_t>(1);
    const float factor = 2 * gradient_factor(s, s.elements(), nullptr, args.context);
    for (std::int64_t row = 0; row < s.outer; ++row) {
      s.counts(labels, row);
      for (std::int64_t c = 0; c < s.classes; ++c) {
        const std::int64_t place = row * s.classes + c;
        args.out(0)[place] = factor * (args.in(0)[place] - (c == labels[row] ? 1.0F : 0.0F));
      }
    }
  });
}

// ---- Of every element by itself --------------------------------------------------------------------

// Mean of value(x, t, i), i being the place.
template <typename Value>
std::unique_ptr<Kernel> mean_kernel(const LossShape& s, Value value) {
  return lambda_kernel([s, value](const Arguments& args) {
    double sum = 0;
    for (std::int64_t i = 0; i < s.elements(); ++i)
      sum += value(static_cast<double>(args.in(0)[i]), static_cast<double>(args.in(1)[i]), i);
    *args.out(0) = loss_of_sum(sum, s.elements(), nullptr, args.context);
  });
}

template <typename Slope>
std::unique_ptr<Kernel> slope_kernel(const LossShape& s, Slope slope) {
  return lambda_kernel([s, slope](const Arguments& args) {
    const auto factor = static_cast<double>(gradient_factor(s, s.elements(), nullptr, args.context));
    for (std::int64_t i = 0; i < s.elements(); ++i) {
      args.out(0)[i] = static_cast<float>(
          factor * slope(static_cast<double>(args.in(0)[i]), static_cast<double>(args.in(1)[i]), i));
    }
  });
}

std::unique_ptr<Kernel> make_mse(const KernelRequest& request) {
  const LossShape s = loss_shape(request);
  if (s.indices) return make_one_hot(s);
  return mean_kernel(s, [](double x, double t, std::int64_t) { return (x - t) * (x - t); });
}

std::unique_ptr<Kernel> make_mse_grad(const KernelRequest& request) {
  const LossShape s = loss_shape(request);
  if (s.indices) return make_one_hot_grad(s);
  return slope_kernel(s, [](double x, double t, std::int64_t) { return 2 * (x - t); });
}

std::unique_ptr<Kernel> make_l1(const KernelRequest& request) {
  return mean_kernel(loss_shape(request), [](double x, double t, std::int64_t) { return std::abs(x - t); });
}

// 0 where they are equal; NaN stays one.
std::unique_ptr<Kernel> make_l1_grad(const KernelRequest& request) {
  return slope_kernel(loss_shape(request), [](double x, double t, std::int64_t) {
    return x > t ? 1.0 : x < t ? -1.0 : x - t == 0 ? 0.0 : x - t;
  });
}

std::unique_ptr<Kernel> make_mean(const KernelRequest& request) {
  return mean_kernel(loss_shape(request), [](double x, double, std::int64_t) { return x; });
}

std::unique_ptr<Kernel> make_mean_grad(const KernelRequest& request) {
  return slope_kernel(loss_shape(request), [](double, double, std::int64_t) { return 1.0; });
}

// The weight of targets of 1 by the place of an element.
class PosWeight {
 public:
  explicit PosWeight(const KernelRequest& request)
      : weights_(request.op.numbers("pos_weight", {})),
        last_(weights_.size() < 2 ? 1 : std::ssize(weights_)) {
    if (weights_.empty()) weights_.push_back(1);
  }
  // Factor of softplus(-x), or of its derivative.
  double factor(double t, std::int64_t i) const {
    return 1 + (static_cast<double>(weights_[i % last_]) - 1) * t;
  }

 private:
  std::vector<float> weights_;
  std::int64_t last_;
};

std::unique_ptr<Kernel> make_bce(const KernelRequest& request) {
  return mean_kernel(loss_shape(request), [w = PosWeight(request)](double x, double t, std::int64_t i) {
    const double softplus = std::log1p(std::exp(-std::abs(x))) + (x < 0 ? -x : 0);
    return (1 - t) * x + w.factor(t, i) * softplus;
  });
}

std::unique_ptr<Kernel> make_bce_grad(const KernelRequest& request) {
  return slope_kernel(loss_shape(request), [w = PosWeight(request)](double x, double t, std::int64_t i) {
    const double power = std::exp(-std::abs(x));
    const double sigmoid_of_minus = x >= 0 ? power / (1 + power) : 1 / (1 + power);
    return 1 - t - w.factor(t, i) * sigmoid_of_minus;
  });
}

}  // namespace

void add_losses(KernelTable& table) {
  table.add("MseLoss", {make_mse});
  table.add("MseLossGrad", {make_mse_grad});
  table.add("L1Loss", {make_l1});
  table.add("L1LossGrad", {make_l1_grad});
  table.add("MeanLoss", {make_mean});
  table.add("MeanLossGrad", {make_mean_grad});
  table.add("BceWithLogitsLoss", {make_bce});
  table.add("BceWithLogitsLossGrad", {make_bce_grad});
  table.add("CrossEntropyLoss", {make_cross_entropy});
  table.add("CrossEntropyLossGrad", {make_cross_entropy_grad});
}

}  // namespace rookery::eigen
