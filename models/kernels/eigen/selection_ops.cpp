// Comparisons, logic, Where, Min, Max, Cast, and their gradients.
#include <algorithm>
#include <cmath>
#include <limits>

#include "models/kernels/backend.hpp"
#include "models/kernels/eigen/moving.hpp"
#include "models/kernels/shapes/broadcasting.hpp"

namespace rookery::eigen {
namespace {

using Byte = std::uint8_t;  // a bool in memory, whatever it holds

// body(T()) for every type; a bool is read as the byte that it is.
template <typename Body>
std::unique_ptr<Kernel> with_type(DType type, Body body) {
  switch (type) {
    case DType::kF32:  // NOLINT(bugprone-branch-clone): the branches differ in their types
      return body(float());
    case DType::kF64:
      return body(double());
    case DType::kI64:
      return body(std::int64_t());
    case DType::kI32:
      return body(std::int32_t());
    case DType::kU8:
    case DType::kBool:
      return body(Byte());
  }
  ROOKERY_CHECK(false, "dtype {}", static_cast<int>(type));
}

// ---- Comparisons and logic ------------------------------------------------------------------

struct Equal {
  template <typename T>
  static bool y(T a, T b) {
    return a == b;
  }
};
struct Less {
  template <typename T>
  static bool y(T a, T b) {
    return a < b;
  }
};
struct LessOrEqual {
  template <typename T>
  static bool y(T a, T b) {
    return a <= b;
  }
};
struct Greater {
  template <typename T>
  static bool y(T a, T b) {
    return a > b;
  }
};
struct GreaterOrEqual {
  template <typename T>
  static bool y(T a, T b) {
    return a >= b;
  }
};
struct And {
  static bool y(Byte a, Byte b) { return a != 0 && b != 0; }
};
struct Or {
  static bool y(Byte a, Byte b) { return a != 0 || b != 0; }
};

template <typename Function, typename T>
std::unique_ptr<Kernel> make_test_of(const KernelRequest& request) {
  const Broadcasting<2> walk(request.outputs[0].shape, {request.inputs[0].shape, request.inputs[1].shape});
  return lambda_kernel([walk](const Arguments& args) {
    const auto& steps = walk.steps();
    walk.for_runs([&](std::int64_t place, const auto& offsets) {
      const T* a = args.in<T>(0) + offsets[0];
      const T* b = args.in<T>(1) + offsets[1];
      Byte* y = args.out<Byte>(0) + place;
      for (std::int64_t i = 0; i < walk.length(); ++i)
        y[i] = Function::y(a[i * steps[0]], b[i * steps[1]]) ? 1 : 0;
    });
  });
}

template <typename Function>
std::unique_ptr<Kernel> make_comparison(const KernelRequest& request) {
  return with_type(request.inputs[0].dtype,
                   [&](auto zero) { return make_test_of<Function, decltype(zero)>(request); });
}

std::unique_ptr<Kernel> make_not(const KernelRequest& request) {
  return lambda_kernel([n = request.outputs[0].shape.elements()](const Arguments& args) {
    for (std::int64_t i = 0; i < n; ++i) args.out<Byte>(0)[i] = args.in<Byte>(0)[i] == 0 ? 1 : 0;
  });
}

// ---- Where ----------------------------------------------------------------------------------

std::unique_ptr<Kernel> make_where(const KernelRequest& request) {
  const Broadcasting<3> walk(request.outputs[0].shape,
                             {request.inputs[0].shape, request.inputs[1].shape, request.inputs[2].shape});
  return with_element_size(request.outputs[0].dtype, [&](auto size) -> std::unique_ptr<Kernel> {
    return lambda_kernel([walk](const Arguments& args) {
      constexpr std::size_t kBytes = decltype(size)::value;
      constexpr auto kSize = static_cast<std::int64_t>(kBytes);
      const auto [chosen, step_a, step_b] = walk.steps();
      walk.for_runs(
          [&, chosen = chosen, step_a = step_a, step_b = step_b](std::int64_t place, const auto& offsets) {
            const Byte* condition = args.in<Byte>(0) + offsets[0];
            const auto* a = args.in<std::byte>(1) + offsets[1] * kSize;
            const auto* b = args.in<std::byte>(2) + offsets[2] * kSize;
            std::byte* y = args.out<std::byte>(0) + place * kSize;
            for (std::int64_t i = 0; i < walk.length(); ++i) {
              const std::byte* from =
                  condition[i * chosen] != 0 ? a + i * step_a * kSize : b + i * step_b * kSize;
              std::memcpy(y + i * kSize, from, kBytes);
            }
          });
    });
  });
}

// dY where the condition is `left`, summed over repeated elements in double, in the order of dY.
std::unique_ptr<Kernel> make_where_grad(const KernelRequest& request, bool left) {
  const Shape& whole = request.inputs[0].shape;
  const Shape& target = request.outputs[0].shape;
  const Broadcasting<2> walk(whole, {target, request.inputs[1].shape});
  const auto elements = static_cast<std::size_t>(target.elements());
  return with_real(request.outputs[0].dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    using T = decltype(zero);
    if (target.elements() == whole.elements()) {
      return lambda_kernel([walk, left](const Arguments& args) {
        const auto [same, chosen] = walk.steps();
        walk.for_runs([&, chosen = chosen](std::int64_t place, const auto& offsets) {
          const T* dy = args.in<T>(0) + place;
          const Byte* condition = args.in<Byte>(1) + offsets[1];
          T* dx = args.out<T>(0) + place;
          for (std::int64_t i = 0; i < walk.length(); ++i)
            dx[i] = (condition[i * chosen] != 0) == left ? dy[i] : T(0);
        });
      });
    }
    return lambda_kernel(
        [walk, elements, left](const Arguments& args) {
          auto* sums = reinterpret_cast<double*>(args.scratch);
          std::fill_n(sums, elements, 0.0);
          const auto [step, chosen] = walk.steps();
          walk.for_runs([&, step = step, chosen = chosen](std::int64_t place, const auto& offsets) {
            const T* dy = args.in<T>(0) + place;
            const Byte* condition = args.in<Byte>(1) + offsets[1];
            double* sum = sums + offsets[0];
            for (std::int64_t i = 0; i < walk.length(); ++i)
              sum[i * step] += (condition[i * chosen] != 0) == left ? static_cast<double>(dy[i]) : 0;
          });
          for (std::size_t i = 0; i < elements; ++i) args.out<T>(0)[i] = static_cast<T>(sums[i]);
        },
        elements * sizeof(double));
  });
}

// ---- Min and Max ----------------------------------------------------------------------------

// A NaN stays one.
struct Max {
  template <typename T>
  static T y(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct Min {
  template <typename T>
  static T y(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

std::vector<Broadcasting<1>> walks_of(const Shape& whole, std::span<const TensorType> operands) {
  std::vector<Broadcasting<1>> walks;
  for (const TensorType& operand : operands) walks.push_back(Broadcasting<1>(whole, {operand.shape}));
  return walks;
}

template <typename Function>
std::unique_ptr<Kernel> make_extremum(const KernelRequest& request) {
  return with_type(request.outputs[0].dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    using T = decltype(zero);
    return lambda_kernel([walks = walks_of(request.outputs[0].shape, request.inputs)](const Arguments& args) {
      for (std::size_t operand = 0; operand < walks.size(); ++operand) {
        const Broadcasting<1>& walk = walks[operand];
        const std::int64_t step = walk.steps()[0];
        walk.for_runs([&](std::int64_t place, const auto& offsets) {
          const T* x = args.in<T>(operand) + offsets[0];
          T* y = args.out<T>(0) + place;
          for (std::int64_t i = 0; i < walk.length(); ++i)
            y[i] = operand == 0 ? x[i * step] : Function::y(y[i], x[i * step]);
        });
      }
    });
  });
}

// Operands that are equal to Y have equal shares of dY.
std::unique_ptr<Kernel> make_extremum_grad(const KernelRequest& request) {
  const Shape& whole = request.inputs[0].shape;
  const auto target = static_cast<std::size_t>(request.op.integer("input", 0));
  const auto count = static_cast<std::size_t>(whole.elements());
  const auto elements = static_cast<std::size_t>(request.outputs[0].shape.elements());
  return with_real(request.outputs[0].dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    using T = decltype(zero);
    return lambda_kernel(
        [walks = walks_of(whole, request.inputs.subspan(2)), target, count, elements](const Arguments& args) {
          auto* sums = reinterpret_cast<double*>(args.scratch);
          auto* equal = reinterpret_cast<std::uint32_t*>(sums + elements);
          std::fill_n(sums, elements, 0.0);
          std::fill_n(equal, count, 0U);
          const T* y = args.in<T>(1);
          for (std::size_t operand = 0; operand < walks.size(); ++operand) {
            const std::int64_t step = walks[operand].steps()[0];
            walks[operand].for_runs([&](std::int64_t place, const auto& offsets) {
              const T* x = args.in<T>(operand + 2) + offsets[0];
              for (std::int64_t i = 0; i < walks[operand].length(); ++i)
                equal[place + i] += x[i * step] == y[place + i] ? 1 : 0;
            });
          }
          const std::int64_t step = walks[target].steps()[0];
          walks[target].for_runs([&](std::int64_t place, const auto& offsets) {
            const T* x = args.in<T>(target + 2) + offsets[0];
            const T* dy = args.in<T>(0) + place;
            double* sum = sums + offsets[0];
            for (std::int64_t i = 0; i < walks[target].length(); ++i) {
              if (x[i * step] == y[place + i]) sum[i * step] += static_cast<double>(dy[i]) / equal[place + i];
            }
          });
          for (std::size_t i = 0; i < elements; ++i) args.out<T>(0)[i] = static_cast<T>(sums[i]);
        },
        elements * sizeof(double) + count * sizeof(std::uint32_t));
  });
}

// ---- Cast -----------------------------------------------------------------------------------

// A real number out of the range of an integer becomes the nearest one in it, NaN becomes 0.
template <typename To, typename From>
To converted(From x) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr auto kLow = static_cast<double>(std::numeric_limits<To>::min());
    constexpr auto kHigh = static_cast<double>(std::numeric_limits<To>::max());
    const auto wide = static_cast<double>(x);
    if (std::isnan(wide)) return 0;
    if (wide <= kLow) return std::numeric_limits<To>::min();
    if (wide >= kHigh) return std::numeric_limits<To>::max();
  }
  return static_cast<To>(x);
}

std::unique_ptr<Kernel> make_cast(const KernelRequest& request) {
  const std::int64_t n = request.outputs[0].shape.elements();
  const bool from_bool = request.inputs[0].dtype == DType::kBool;
  const bool to_bool = request.outputs[0].dtype == DType::kBool;
  return with_type(request.inputs[0].dtype, [&](auto from_zero) {
    using From = decltype(from_zero);
    return with_type(request.outputs[0].dtype, [&](auto to_zero) -> std::unique_ptr<Kernel> {
      using To = decltype(to_zero);
      if constexpr (std::is_same_v<From, Byte> || std::is_same_v<To, Byte>) {
        if (from_bool || to_bool) {
          return lambda_kernel([n](const Arguments& args) {
            const From* x = args.in<From>(0);
            To* y = args.out<To>(0);
            for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<To>(x[i] != From(0) ? 1 : 0);
          });
        }
      }
      return lambda_kernel([n](const Arguments& args) {
        const From* x = args.in<From>(0);
        To* y = args.out<To>(0);
        for (std::int64_t i = 0; i < n; ++i) y[i] = converted<To>(x[i]);
      });
    });
  });
}

}  // namespace

void add_selection(KernelTable& table) {
  table.add("Equal", {make_comparison<Equal>});
  table.add("Less", {make_comparison<Less>});
  table.add("LessOrEqual", {make_comparison<LessOrEqual>});
  table.add("Greater", {make_comparison<Greater>});
  table.add("GreaterOrEqual", {make_comparison<GreaterOrEqual>});
  table.add("And", {make_test_of<And, Byte>});
  table.add("Or", {make_test_of<Or, Byte>});
  table.add("Not", {make_not});
  table.add("Where", {make_where});
  table.add("WhereGradLeft", {[](const KernelRequest& request) { return make_where_grad(request, true); }});
  table.add("WhereGradRight", {[](const KernelRequest& request) { return make_where_grad(request, false); }});
  table.add("Max", {make_extremum<Max>});
  table.add("Min", {make_extremum<Min>});
  table.add("ExtremumGrad", {make_extremum_grad});
  table.add("Cast", {make_cast});
  table.add("CastGrad", {make_cast});
}

}  // namespace rookery::eigen
