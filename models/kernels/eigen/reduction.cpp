// ReduceL1, ReduceL2, ReduceMax, ReduceMean, ReduceSum and their gradients; CumSum. Sums of f32 in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "models/graph/ops/reduction.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/broadcasting.hpp"
#include "models/kernels/shapes/shapes.hpp"

namespace rookery::eigen {
namespace {

// X, and what of the result belongs to each of its elements.
struct Reduction {
  Broadcasting<1> walk;
  std::size_t results;
  double share;  // of one result in an element: 1 / the number of elements reduced to it

  // visit(element of X, its result).
  template <typename Visit>
  void for_each(Visit visit) const {
    walk.for_runs([&](std::int64_t place, const auto& offsets) {
      for (std::int64_t i = 0; i < walk.length(); ++i) visit(place + i, offsets[0] + i * walk.steps()[0]);
    });
  }
};

Reduction reduction_of(const KernelRequest& request, const Shape& x) {
  const Shape kept = reduced_shape(request.op, x);
  return {.walk = Broadcasting<1>(x, {kept}),
          .results = static_cast<std::size_t>(kept.elements()),
          .share = static_cast<double>(kept.elements()) / static_cast<double>(x.elements())};
}

std::unique_ptr<Kernel> make_sum(const KernelRequest& request, bool mean) {
  const Reduction r = reduction_of(request, request.inputs[0].shape);
  return lambda_kernel(
      [r, factor = mean ? r.share : 1.0](const Arguments& args) {
        auto* sums = reinterpret_cast<double*>(args.scratch);
        std::fill_n(sums, r.results, 0.0);
        const float* x = args.in(0);
        r.for_each([&](std::int64_t i, std::int64_t result) { sums[result] += x[i]; });
        for (std::size_t i = 0; i < r.results; ++i) args.out(0)[i] = static_cast<float>(sums[i] * factor);
      },
      r.results * sizeof(double));
}

std::unique_ptr<Kernel> make_sum_grad(const KernelRequest& request, bool mean) {
  const Reduction r = reduction_of(request, request.outputs[0].shape);
  return lambda_kernel([r, factor = mean ? r.share : 1.0](const Arguments& args) {
    const float* dy = args.in(0);
    float* dx = args.out(0);
    r.for_each([&](std::int64_t i, std::int64_t result) { dx[i] = static_cast<float>(dy[result] * factor); });
  });
}

std::unique_ptr<Kernel> make_reduce_mean(const KernelRequest& request) {
  return make_sum(request, true);
}

std::unique_ptr<Kernel> make_reduce_mean_grad(const KernelRequest& request) {
  return make_sum_grad(request, true);
}

std::unique_ptr<Kernel> make_reduce_sum(const KernelRequest& request) {
  return make_sum(request, false);
}

std::unique_ptr<Kernel> make_reduce_sum_grad(const KernelRequest& request) {
  return make_sum_grad(request, false);
}

// finish(sum of term(x)), summed in double.
template <typename Term, typename Finish>
std::unique_ptr<Kernel> make_norm(const KernelRequest& request, Term term, Finish finish) {
  const Reduction r = reduction_of(request, request.inputs[0].shape);
  return lambda_kernel(
      [r, term, finish](const Arguments& args) {
        auto* sums = reinterpret_cast<double*>(args.scratch);
        std::fill_n(sums, r.results, 0.0);
        const float* x = args.in(0);
        r.for_each([&](std::int64_t i, std::int64_t result) { sums[result] += term(x[i]); });
        for (std::size_t i = 0; i < r.results; ++i) args.out(0)[i] = static_cast<float>(finish(sums[i]));
      },
      r.results * sizeof(double));
}

std::unique_ptr<Kernel> make_reduce_l1(const KernelRequest& request) {
  return make_norm(
      request, [](float x) { return double{std::abs(x)}; }, [](double sum) { return sum; });
}

std::unique_ptr<Kernel> make_reduce_l1_grad(const KernelRequest& request) {
  return lambda_kernel([r = reduction_of(request, request.outputs[0].shape)](const Arguments& args) {
    const float* dy = args.in(0);
    const float* x = args.in(1);
    float* dx = args.out(0);
    r.for_each([&](std::int64_t i, std::int64_t result) {
      dx[i] = x[i] > 0 ? dy[result] : x[i] < 0 ? -dy[result] : 0.0F;
    });
  });
}

std::unique_ptr<Kernel> make_reduce_l2(const KernelRequest& request) {
  return make_norm(
      request, [](float x) { return double{x} * x; }, [](double sum) { return std::sqrt(sum); });
}

std::unique_ptr<Kernel> make_reduce_l2_grad(const KernelRequest& request) {
  return lambda_kernel([r = reduction_of(request, request.outputs[0].shape)](const Arguments& args) {
    const float* dy = args.in(0);
    const float* x = args.in(1);
    const float* y = args.in(2);
    float* dx = args.out(0);
    r.for_each([&](std::int64_t i, std::int64_t result) {
      dx[i] = y[result] == 0 ? 0.0F : dy[result] * (x[i] / y[result]);
    });
  });
}

std::unique_ptr<Kernel> make_reduce_max(const KernelRequest& request) {
  return lambda_kernel([r = reduction_of(request, request.inputs[0].shape)](const Arguments& args) {
    const float* x = args.in(0);
    float* y = args.out(0);
    std::fill_n(y, r.results, -std::numeric_limits<float>::infinity());
    // A NaN stays one.
    r.for_each([&](std::int64_t i, std::int64_t result) {
      if (x[i] > y[result] || std::isnan(x[i])) y[result] = x[i];
    });
  });
}

// Equals share the gradient, as in torch.amax.
std::unique_ptr<Kernel> make_reduce_max_grad(const KernelRequest& request) {
  const Reduction r = reduction_of(request, request.outputs[0].shape);
  return lambda_kernel(
      [r](const Arguments& args) {
        const float* dy = args.in(0);
        const float* x = args.in(1);
        const float* y = args.in(2);
        float* dx = args.out(0);
        auto* equals = reinterpret_cast<std::int64_t*>(args.scratch);
        std::fill_n(equals, r.results, 0);
        r.for_each([&](std::int64_t i, std::int64_t result) { equals[result] += x[i] == y[result] ? 1 : 0; });
        r.for_each([&](std::int64_t i, std::int64_t result) {
          dx[i] = x[i] == y[result] ? dy[result] / static_cast<float>(equals[result]) : 0;
        });
      },
      r.results * sizeof(std::int64_t));
}

// Whole numbers wrap around, as in Add.
template <typename T, typename Sum>
std::unique_ptr<Kernel> make_cumulative(const KernelRequest& request) {
  const AxisShape s = axis_shape(request);
  const bool exclusive = request.op.integer("exclusive", 0) != 0;
  const bool reverse = request.op.integer("reverse", 0) != 0;
  return lambda_kernel([s, exclusive, reverse](const Arguments& args) {
    for (std::int64_t row = 0; row < s.outer * s.inner; ++row) {
      const std::int64_t begin = row / s.inner * s.size * s.inner + row % s.inner;
      Sum sum = 0;
      for (std::int64_t i = 0; i < s.size; ++i) {
        const std::int64_t place = begin + (reverse ? s.size - 1 - i : i) * s.inner;
        const Sum before = sum;
        sum += static_cast<Sum>(args.in<T>(0)[place]);
        args.out<T>(0)[place] = static_cast<T>(exclusive ? before : sum);
      }
    }
  });
}

std::unique_ptr<Kernel> make_cumulative_sum(const KernelRequest& request) {
  switch (request.inputs[0].dtype) {
    case DType::kF32:
      return make_cumulative<float, double>(request);
    case DType::kF64:
      return make_cumulative<double, double>(request);
    case DType::kI32:
      return make_cumulative<std::int32_t, std::uint32_t>(request);
    default:
      return make_cumulative<std::int64_t, std::uint64_t>(request);
  }
}

}  // namespace

void add_reduction(KernelTable& table) {
  table.add("ReduceL1", {make_reduce_l1});
  table.add("ReduceL1Grad", {make_reduce_l1_grad});
  table.add("ReduceL2", {make_reduce_l2});
  table.add("ReduceL2Grad", {make_reduce_l2_grad});
  table.add("ReduceMax", {make_reduce_max});
  table.add("ReduceMaxGrad", {make_reduce_max_grad});
  table.add("ReduceMean", {make_reduce_mean});
  table.add("ReduceMeanGrad", {make_reduce_mean_grad});
  table.add("ReduceSum", {make_reduce_sum});
  table.add("ReduceSumGrad", {make_reduce_sum_grad});
  table.add("CumSum", {make_cumulative_sum});
}

}  // namespace rookery::eigen
