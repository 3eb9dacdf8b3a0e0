// Functions of two numbers with broadcasting, and their derivatives by the left and the right one.

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/broadcasting.hpp"

namespace rookery::eigen {
namespace {

struct Add {
  template <typename T>
  static T y(T a, T b) {
    return a + b;
  }
  static float left(float, float) { return 1; }
  static float right(float, float) { return 1; }
};

struct Div {
  static float y(float a, float b) { return a / b; }
  static float left(float, float b) { return 1 / b; }
  static float right(float a, float b) { return -a / b / b; }
};

struct Mul {
  static float y(float a, float b) { return a * b; }
  static float left(float, float b) { return b; }
  static float right(float a, float) { return a; }
};

struct PRelu {
  static float y(float a, float b) { return a > 0 ? a : a * b; }
  static float left(float a, float b) { return a > 0 ? 1 : b; }
  static float right(float a, float) { return a > 0 ? 0 : a; }
};

// At the edges of the definition as PyTorch.
struct Pow {
  static float y(float a, float b) { return std::pow(a, b); }
  // At 0 that of a root is infinite: there 0, as of Sqrt.
  static float left(float a, float b) {
    const bool is_root_of_zero = a == 0 && b > 0 && b < 1;
    return b == 0 || is_root_of_zero ? 0 : b * std::pow(a, b - 1);
  }
  static float right(float a, float b) { return a == 0 && b >= 0 ? 0 : std::pow(a, b) * std::log(a); }
};

struct Sub {
  static float y(float a, float b) { return a - b; }
  static float left(float, float) { return 1; }
  static float right(float, float) { return -1; }
};

// Integers: what does not fit in their range is taken modulo its size.
struct WrappingAdd {
  template <typename T>
  static T y(T a, T b) {
    return static_cast<T>(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
  }
};
struct WrappingMul {
  template <typename T>
  static T y(T a, T b) {
    return static_cast<T>(std::make_unsigned_t<T>(a) * std::make_unsigned_t<T>(b));
  }
};
struct WrappingSub {
  template <typename T>
  static T y(T a, T b) {
    return static_cast<T>(std::make_unsigned_t<T>(a) - std::make_unsigned_t<T>(b));
  }
};
struct WholeDiv {
  template <typename T>
  static T y(T a, T b) {
    return b == -1 ? WrappingSub::y(T(0), a) : a / b;
  }
  // Before the first division.
  template <typename T>
  static void check(const std::string& op, std::span<const T> divisors) {
    const auto zero = std::ranges::find(divisors, T(0));
    if (zero == divisors.end()) return;
    throw DataError(fmt::format("op '{}': element {} of the divisor is 0", op, zero - divisors.begin()));
  }
};

template <typename Function, typename T = float>
std::unique_ptr<Kernel> make_function(const KernelRequest& request) {
  const Broadcasting<2> walk(request.outputs[0].shape, {request.inputs[0].shape, request.inputs[1].shape});
  return lambda_kernel([walk, op = request.op.name](const Arguments& args) {
    if constexpr (requires(std::span<const T> b) { Function::check(op, b); })
      Function::check(op, args.inputs[1].as<T>());
    const std::int64_t n = walk.length();
    const auto [step_a, step_b] = walk.steps();
    walk.for_runs([&, step_a = step_a, step_b = step_b](std::int64_t place, const auto& offsets) {
      const T* a = args.in<T>(0) + offsets[0];
      const T* b = args.in<T>(1) + offsets[1];
      T* y = args.out<T>(0) + place;
      if (step_a == 1 && step_b == 1) {
        for (std::int64_t i = 0; i < n; ++i) y[i] = Function::y(a[i], b[i]);
      } else {
        for (std::int64_t i = 0; i < n; ++i) y[i] = Function::y(a[i * step_a], b[i * step_b]);
      }
    });
  });
}

template <typename Function, typename Integers>
std::unique_ptr<Kernel> make_of_any(const KernelRequest& request) {
  switch (request.inputs[0].dtype) {
    case DType::kI64:
      return make_function<Integers, std::int64_t>(request);
    case DType::kI32:
      return make_function<Integers, std::int32_t>(request);
    case DType::kF64:  // sums of gradients of what is cast to f64
      return std::is_same_v<Function, Add> ? make_function<Add, double>(request) : nullptr;
    default:
      return make_function<Function>(request);
  }
}

// Operands that the derivative does not need are absent and read as 0. Sums over repeated elements are
// made in double, in the order of dY.
template <float (*slope)(float, float)>
std::unique_ptr<Kernel> make_gradient(const KernelRequest& request) {
  const Shape& target = request.outputs[0].shape;
  const Shape& whole = request.inputs[0].shape;
  const Broadcasting<3> walk(whole, {target, request.inputs[1].shape, request.inputs[2].shape});
  const auto elements = static_cast<std::size_t>(target.elements());
  return lambda_kernel(
      [walk, elements](const Arguments& args) {
        static constexpr float kAbsent = 0;
        const float* left = args.in(1) != nullptr ? args.in(1) : &kAbsent;
        const float* right = args.in(2) != nullptr ? args.in(2) : &kAbsent;
        auto* sums = reinterpret_cast<double*>(args.scratch);
        for (std::size_t i = 0; i < elements; ++i) sums[i] = 0;
        const auto& steps = walk.steps();
        walk.for_runs([&](std::int64_t place, const auto& offsets) {
          const float* dy = args.in(0) + place;
          double* sum = sums + offsets[0];
          const float* a = left + offsets[1];
          const float* b = right + offsets[2];
          for (std::int64_t i = 0; i < walk.length(); ++i) {
            sum[i * steps[0]] += static_cast<double>(dy[i] * slope(a[i * steps[1]], b[i * steps[2]]));
          }
        });
        float* gradient = args.out(0);
        for (std::size_t i = 0; i < elements; ++i) gradient[i] = static_cast<float>(sums[i]);
      },
      elements * sizeof(double));
}

// Nothing is repeated, and no sums are needed.
template <float (*slope)(float, float)>
std::unique_ptr<Kernel> make_plain_gradient(const KernelRequest& request) {
  const Broadcasting<2> walk(request.inputs[0].shape, {request.inputs[1].shape, request.inputs[2].shape});
  return lambda_kernel([walk](const Arguments& args) {
    static constexpr float kAbsent = 0;
    const float* left = args.in(1) != nullptr ? args.in(1) : &kAbsent;
    const float* right = args.in(2) != nullptr ? args.in(2) : &kAbsent;
    const auto& steps = walk.steps();
    walk.for_runs([&](std::int64_t place, const auto& offsets) {
      const float* dy = args.in(0) + place;
      const float* a = left + offsets[0];
      const float* b = right + offsets[1];
      float* dx = args.out(0) + place;
      for (std::int64_t i = 0; i < walk.length(); ++i)
        dx[i] = dy[i] * slope(a[i * steps[0]], b[i * steps[1]]);
    });
  });
}

template <float (*slope)(float, float)>
std::unique_ptr<Kernel> make_any_gradient(const KernelRequest& request) {
  const bool sums = request.inputs[0].shape.elements() != request.outputs[0].shape.elements();
  return sums ? make_gradient<slope>(request) : make_plain_gradient<slope>(request);
}

template <typename Function, typename Integers = void>
void add(KernelTable& table, const std::string& type) {
  if constexpr (std::is_void_v<Integers>) {
    table.add(type, {make_function<Function>});
  } else {
    table.add(type, {make_of_any<Function, Integers>});
  }
  table.add(type + "GradLeft", {make_any_gradient<Function::left>});
  table.add(type + "GradRight", {make_any_gradient<Function::right>});
}

}  // namespace

void add_binary(KernelTable& table) {
  add<Add, WrappingAdd>(table, "Add");
  add<Div, WholeDiv>(table, "Div");
  add<Mul, WrappingMul>(table, "Mul");
  add<PRelu>(table, "PRelu");
  add<Pow>(table, "Pow");
  add<Sub, WrappingSub>(table, "Sub");
}

}  // namespace rookery::eigen
