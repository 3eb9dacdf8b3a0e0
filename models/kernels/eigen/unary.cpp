// Functions of one number and their derivatives. Each is a type made from its op, with y(x) and slope(v),
// where v is x or y as models/graph/ops/unary_ops.cpp says.
#include <cmath>
#include <limits>
#include <numbers>

#include "models/kernels/backend.hpp"

namespace rookery::eigen {
namespace {

struct Abs {
  explicit Abs(const Op&) {}
  float y(float x) const { return std::abs(x); }
  float slope(float x) const { return x > 0 ? 1.0F : x < 0 ? -1.0F : 0.0F; }
};

struct Clip {
  explicit Clip(const Op& op)
      : min(op.number("min", -std::numeric_limits<float>::infinity())),
        max(op.number("max", std::numeric_limits<float>::infinity())) {}
  // A NaN stays one.
  float y(float x) const {
    const float raised = x < min ? min : x;
    return raised > max ? max : raised;
  }
  float slope(float x) const { return x >= min && x <= max ? 1.0F : 0.0F; }
  float min, max;
};

struct Cos {
  explicit Cos(const Op&) {}
  float y(float x) const { return std::cos(x); }
  float slope(float x) const { return -std::sin(x); }
};

struct Elu {
  explicit Elu(const Op& op) : alpha(op.number("alpha", 1)) {}
  float y(float x) const { return x > 0 ? x : alpha * std::expm1(x); }
  float slope(float x) const { return x > 0 ? 1.0F : alpha * std::exp(x); }
  float alpha;
};

struct Erf {
  explicit Erf(const Op&) {}
  float y(float x) const { return std::erf(x); }
  float slope(float x) const { return 2 * std::numbers::inv_sqrtpi_v<float> * std::exp(-x * x); }
};

struct Exp {
  explicit Exp(const Op&) {}
  float y(float x) const { return std::exp(x); }
  float slope(float y) const { return y; }
};

// x times the normal distribution's function, or its approximation (1 + tanh z) / 2 = 1 / (1 + e^-2z).
struct Gelu {
  explicit Gelu(const Op& op) : is_tanh(op.text("approximate", "none") == "tanh") {}
  float y(float x) const { return x * weight(x); }
  float slope(float x) const {
    const float w = weight(x);
    if (!is_tanh) return w + x * kDensity * std::exp(-0.5F * x * x);
    return w + 2 * x * w * (1 - w) * kScale * (1 + 3 * kCube * x * x);
  }
  float weight(float x) const {
    if (!is_tanh) return 0.5F * std::erfc(-x / std::numbers::sqrt2_v<float>);
    return 1 / (1 + std::exp(-2 * kScale * (x + kCube * x * x * x)));
  }
  static constexpr float kCube = 0.044715F;
  static constexpr float kScale = std::numbers::sqrt2_v<float> * std::numbers::inv_sqrtpi_v<float>;
  static constexpr float kDensity = kScale / 2;  // 1 / sqrt(2 pi)
  bool is_tanh;
};

struct HardSigmoid {
  explicit HardSigmoid(const Op& op) : alpha(op.number("alpha", 0.2F)), beta(op.number("beta", 0.5F)) {}
  float y(float x) const {
    const float line = alpha * x + beta;
    return line < 0 ? 0.0F : line > 1 ? 1.0F : line;
  }
  float slope(float x) const {
    const float line = alpha * x + beta;
    return line > 0 && line < 1 ? alpha : 0.0F;
  }
  float alpha, beta;
};

struct HardSwish {
  explicit HardSwish(const Op&) {}
  float y(float x) const { return x <= -3 ? 0.0F : x >= 3 ? x : x * (x + 3) / 6; }
  float slope(float x) const { return x <= -3 ? 0.0F : x >= 3 ? 1.0F : x / 3 + 0.5F; }
};

struct LeakyRelu {
  explicit LeakyRelu(const Op& op) : alpha(op.number("alpha", 0.01F)) {}
  float y(float x) const { return x > 0 ? x : alpha * x; }
  float slope(float x) const { return x > 0 ? 1.0F : alpha; }
  float alpha;
};

struct Log {
  explicit Log(const Op&) {}
  float y(float x) const { return std::log(x); }
  float slope(float x) const { return 1 / x; }
};

struct Neg {
  explicit Neg(const Op&) {}
  float y(float x) const { return -x; }
};

struct Sigmoid {
  explicit Sigmoid(const Op&) {}
  float y(float x) const { return 1 / (1 + std::exp(-x)); }
  float slope(float y) const { return y * (1 - y); }
};

struct Sin {
  explicit Sin(const Op&) {}
  float y(float x) const { return std::sin(x); }
  float slope(float x) const { return std::cos(x); }
};

// The numbers that ONNX gives it make outputs of mean 0 and variance 1 (arXiv 1706.02515).
struct Selu {
  explicit Selu(const Op& op)
      : alpha(op.number("alpha", 1.67326319F)), gamma(op.number("gamma", 1.05070102F)) {}
  float y(float x) const { return gamma * (x > 0 ? x : alpha * std::expm1(x)); }
  float slope(float x) const { return gamma * (x > 0 ? 1.0F : alpha * std::exp(x)); }
  float alpha, gamma;
};

struct Softplus {
  explicit Softplus(const Op&) {}
  float y(float x) const { return (x > 0 ? x : 0.0F) + std::log1p(std::exp(-std::abs(x))); }
  float slope(float x) const { return 1 / (1 + std::exp(-x)); }
};

struct Sqrt {
  explicit Sqrt(const Op&) {}
  float y(float x) const { return std::sqrt(x); }
  // At 0 it is infinite, and what is made of it, such as a deviation of equal numbers, would be a NaN.
  float slope(float y) const { return y == 0 ? 0 : 0.5F / y; }
};

struct Tanh {
  explicit Tanh(const Op&) {}
  float y(float x) const { return std::tanh(x); }
  float slope(float y) const { return 1 - y * y; }
};

template <typename Function>
std::unique_ptr<Kernel> make_unary(const KernelRequest& request) {
  return lambda_kernel(
      [f = Function(request.op), n = request.outputs[0].shape.elements()](const Arguments& args) {
        const float* x = args.in(0);
        float* y = args.out(0);
        for (std::int64_t i = 0; i < n; ++i) y[i] = f.y(x[i]);
      });
}

template <typename Function>
std::unique_ptr<Kernel> make_unary_gradient(const KernelRequest& request) {
  return lambda_kernel(
      [f = Function(request.op), n = request.outputs[0].shape.elements()](const Arguments& args) {
        const float* dy = args.in(0);
        const float* v = args.in(1);
        float* dx = args.out(0);
        for (std::int64_t i = 0; i < n; ++i) dx[i] = dy[i] * f.slope(v[i]);
      });
}

template <typename Function>
void add_function(KernelTable& table, const std::string& type) {
  table.add(type, {make_unary<Function>});
  table.add(type + "Grad", {make_unary_gradient<Function>});
}

}  // namespace

void add_unary(KernelTable& table) {
  add_function<Abs>(table, "Abs");
  add_function<Clip>(table, "Clip");
  add_function<Cos>(table, "Cos");
  add_function<Elu>(table, "Elu");
  add_function<Erf>(table, "Erf");
  add_function<Exp>(table, "Exp");
  add_function<Gelu>(table, "Gelu");
  add_function<HardSigmoid>(table, "HardSigmoid");
  add_function<HardSwish>(table, "HardSwish");
  add_function<LeakyRelu>(table, "LeakyRelu");
  add_function<Log>(table, "Log");
  table.add("Neg", {make_unary<Neg>});
  add_function<Selu>(table, "Selu");
  add_function<Sigmoid>(table, "Sigmoid");
  add_function<Sin>(table, "Sin");
  add_function<Softplus>(table, "Softplus");
  add_function<Sqrt>(table, "Sqrt");
  add_function<Tanh>(table, "Tanh");
}

}  // namespace rookery::eigen
