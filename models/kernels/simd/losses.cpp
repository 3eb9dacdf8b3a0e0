// Losses and their gradients; cross entropy along the last axis.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"
#include "models/kernels/simd/loops/loops.hpp"
#include "models/kernels/threads.hpp"

namespace rookery::simd {
namespace {

// Elements that are summed in single precision before the sums are added in double.
constexpr Index kChunk = 2048;

// Is the label's score the first of the largest?
bool is_hit(const float* x, float peak, Index label) {
  return x[label] == peak && std::find(x, x + label, peak) == x + label;
}

// ---- Of classes ------------------------------------------------------------------------------------

// The sum over the classes of t' (normalizer - x), t' being the smoothed target.
double sum_of_row(const LossShape& s, const Loops& all, float normalizer, const float* x,
                  const std::int64_t* label, const float* target) {
  if (label != nullptr && s.smoothing == 0) return static_cast<double>(normalizer - x[*label]);
  const LogitSums sums = all.logit_sums(s.classes, x, target);
  const auto log_sum = static_cast<double>(normalizer);
  const double given = label != nullptr
                           ? log_sum - static_cast<double>(x[*label])
                           : log_sum * static_cast<double>(sums.targets) - static_cast<double>(sums.products);
  const double even = log_sum - static_cast<double>(sums.logits) / static_cast<double>(s.classes);
  const auto share = static_cast<double>(s.smoothing);
  return share == 0 ? given : (1 - share) * given + share * even;
}

// Rows are done on several threads, and then added in their order.
struct RowResult {
  double loss = 0;
  bool counts = false, is_hit = false;
};

std::unique_ptr<Kernel> make_cross_entropy(const KernelRequest& request) {
  const LossShape shape = loss_shape(request);
  if (shape.inner != 1) return nullptr;
  return lambda_kernel(
      [s = shape, &all = loops()](const Arguments& args) {
        const auto* labels = s.indices ? args.in<std::int64_t>(1) : nullptr;
        const auto* counted = args.in<std::int64_t>(3);
        auto* const results = reinterpret_cast<RowResult*>(args.scratch);
        in_runs(s.outer, s.classes, [&](Index first, Index count) {
          for (Index row = first; row < first + count; ++row) {
            const float* x = args.in(0) + row * s.classes;
            const float peak = all.peak_of(s.classes, x);
            const float normalizer = peak + std::log(all.sum_exp(s.classes, x, peak));
            if (args.out(2) != nullptr) args.out(2)[row] = normalizer;
            RowResult& result = results[row] = {};
            if (s.indices && !s.counts(labels, row)) continue;
            result.loss = sum_of_row(s, all, normalizer, x, s.indices ? labels + row : nullptr,
                                     s.indices ? nullptr : args.in(1) + row * s.classes);
            result.counts = true;
            result.is_hit = s.indices && !std::isnan(normalizer) && is_hit(x, peak, labels[row]);
          }
        });
        double sum = 0;
        Index seen = 0;
        Index correct = 0;
        for (Index row = 0; row < s.outer; ++row) {
          sum += results[row].loss;
          seen += results[row].counts ? 1 : 0;
          correct += results[row].is_hit ? 1 : 0;
        }
        write_hits(args.out<std::int64_t>(1), correct, seen, counted);
        *args.out(0) = loss_of_sum(sum, s.outer, counted, args.context);
      },
      static_cast<std::size_t>(shape.outer) * sizeof(RowResult));
}

std::unique_ptr<Kernel> make_cross_entropy_grad(const KernelRequest& request) {
  const LossShape shape = loss_shape(request);
  if (shape.inner != 1) return nullptr;
  return lambda_kernel([s = shape, &all = loops()](const Arguments& args) {
    const float factor = gradient_factor(s, s.outer, args.in<std::int64_t>(3), args.context);
    const float even = factor * s.smoothing / static_cast<float>(s.classes);
    const float given = factor * (1 - s.smoothing);
    const auto of_row = [&](Index row) {
      const float* x = args.in(0) + row * s.classes;
      float* gradient = args.out(0) + row * s.classes;
      const float normalizer = args.in(2)[row];
      if (!s.indices) {
        const float* target = args.in(1) + row * s.classes;
        const float total = all.logit_sums(s.classes, x, target).targets;
        all.cross_entropy_grad(s.classes, x, normalizer, given * total + factor * s.smoothing, -even, -given,
                               target, gradient);
      } else if (const auto* labels = args.in<std::int64_t>(1); s.counts(labels, row)) {
        all.cross_entropy_grad(s.classes, x, normalizer, factor, -even, 0, nullptr, gradient);
        gradient[labels[row]] -= given;
      } else {
        std::fill_n(gradient, s.classes, 0.0F);
      }
    };
    in_runs(s.outer, s.classes, [&](Index first, Index count) {
      for (Index row = first; row < first + count; ++row) of_row(row);
    });
  });
}

// Mean squared error to one-hot vectors, which are zero but for one place.
std::unique_ptr<Kernel> make_one_hot(const LossShape& shape) {
  return lambda_kernel([s = shape, &all = loops()](const Arguments& args) {
    const auto* labels = args.in<std::int64_t>(1);
    double sum = 0;
    Index correct = 0;
    for (Index row = 0; row < s.outer; ++row) {
      s.counts(labels, row);
      const float* x = args.in(0) + row * s.classes;
      float squares = 0;
      for (Index c = 0; c < s.classes; ++c) {
        const float difference = x[c] - (c == labels[row] ? 1.0F : 0.0F);
        squares += difference * difference;
      }
      sum += static_cast<double>(squares);
      if (!std::isnan(squares) && is_hit(x, all.peak_of(s.classes, x), labels[row])) ++correct;
    }
    write_hits(args.out<std::int64_t>(1), correct, s.outer, nullptr);
    *args.out(0) = loss_of_sum(sum, s.elements(), nullptr, args.context);
  });
}

std::unique_ptr<Kernel> make_one_hot_grad(const LossShape& shape) {
  return lambda_kernel([s = shape](const Arguments& args) {
    const auto* labels = args.in<std::int64_t>(1);
    const float factor = 2 * gradient_factor(s, s.elements(), nullptr, args.context);
    for (Index row = 0; row < s.outer; ++row) {
      s.counts(labels, row);
      const float* x = args.in(0) + row * s.classes;
      float* gradient = args.out(0) + row * s.classes;
      const float at_label = factor * (x[labels[row]] - 1);
      for (Index c = 0; c < s.classes; ++c) gradient[c] = factor * x[c];
      gradient[labels[row]] = at_label;
    }
  });
}

// ---- Of every element by itself --------------------------------------------------------------------

using Distance = float (*)(Index, const float*, const float*);
using Difference = void (*)(Index, float, const float*, const float*, float*);

std::unique_ptr<Kernel> mean_kernel(const LossShape& shape, Distance distance) {
  const Index chunks = (shape.elements() + kChunk - 1) / kChunk;
  return lambda_kernel(
      [s = shape, distance, chunks](const Arguments& args) {
        in_runs(chunks, kChunk, [&](Index first, Index some) {
          for (Index chunk = first; chunk < first + some; ++chunk) {
            const Index i = chunk * kChunk;
            const Index count = std::min(kChunk, s.elements() - i);
            args.floats()[chunk] = distance(count, args.in(0) + i, args.in(1) + i);
          }
        });
        const double sum = std::accumulate(args.floats(), args.floats() + chunks, 0.0);
        *args.out(0) = loss_of_sum(sum, s.elements(), nullptr, args.context);
      },
      float_bytes(chunks));
}

std::unique_ptr<Kernel> slope_kernel(const LossShape& shape, float scale, Difference difference) {
  return lambda_kernel([s = shape, scale, difference](const Arguments& args) {
    const float factor = scale * gradient_factor(s, s.elements(), nullptr, args.context);
    in_runs(
        s.elements(), 1,
        [&](Index at, Index count) {
          difference(count, factor, args.in(0) + at, args.in(1) + at, args.out(0) + at);
        },
        kAlignment);
  });
}

std::unique_ptr<Kernel> make_mse(const KernelRequest& request) {
  const LossShape s = loss_shape(request);
  return s.indices ? make_one_hot(s) : mean_kernel(s, loops().squared_distance);
}

std::unique_ptr<Kernel> make_mse_grad(const KernelRequest& request) {
  const LossShape s = loss_shape(request);
  return s.indices ? make_one_hot_grad(s) : slope_kernel(s, 2, loops().scaled_difference);
}

std::unique_ptr<Kernel> make_l1(const KernelRequest& request) {
  return mean_kernel(loss_shape(request), loops().distance);
}

std::unique_ptr<Kernel> make_l1_grad(const KernelRequest& request) {
  return slope_kernel(loss_shape(request), 1, loops().scaled_sign);
}

// Weights of targets of 1: one for all, or a row of them.
struct PosWeight {
  std::vector<float> weights;
  Index step;  // from an element's to the next one's
  Index row;   // elements to be done at a time

  explicit PosWeight(const KernelRequest& request)
      : weights(request.op.numbers("pos_weight", {1.0F})),
        step(weights.size() < 2 ? 0 : 1),
        row(step == 0 ? kChunk : static_cast<Index>(weights.size())) {
    if (weights.empty()) weights.push_back(1);
  }
};

std::unique_ptr<Kernel> make_bce(const KernelRequest& request) {
  return lambda_kernel([s = loss_shape(request), w = PosWeight(request),
                        &all = loops()](const Arguments& args) {
    double sum = 0;
    for (Index i = 0; i < s.elements(); i += w.row) {
      const Index count = std::min(w.row, s.elements() - i);
      sum += static_cast<double>(all.bce(count, args.in(0) + i, args.in(1) + i, w.weights.data(), w.step));
    }
    *args.out(0) = loss_of_sum(sum, s.elements(), nullptr, args.context);
  });
}

std::unique_ptr<Kernel> make_bce_grad(const KernelRequest& request) {
  return lambda_kernel([s = loss_shape(request), w = PosWeight(request),
                        &all = loops()](const Arguments& args) {
    const float factor = gradient_factor(s, s.elements(), nullptr, args.context);
    for (Index i = 0; i < s.elements(); i += w.row) {
      const Index count = std::min(w.row, s.elements() - i);
      all.bce_grad(count, factor, args.in(0) + i, args.in(1) + i, w.weights.data(), w.step, args.out(0) + i);
    }
  });
}

}  // namespace

void add_losses(KernelTable& table) {
  table.add("MseLoss", {make_mse});
  table.add("MseLossGrad", {make_mse_grad});
  table.add("L1Loss", {make_l1});
  table.add("L1LossGrad", {make_l1_grad});
  table.add("BceWithLogitsLoss", {make_bce});
  table.add("BceWithLogitsLossGrad", {make_bce_grad});
  table.add("CrossEntropyLoss", {make_cross_entropy});
  table.add("CrossEntropyLossGrad", {make_cross_entropy_grad});
}

}  // namespace rookery::simd
