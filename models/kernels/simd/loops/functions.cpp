// Functions of one number and their derivatives: each a type with y(x) and slope(v), where v is x or y as
// models/graph/ops/unary_ops.cpp says. Polynomials are fitted for the least relative error.
#include "models/kernels/simd/loops/bounded.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

// A NaN stays one, here and below.
struct Clip {
  Floats min, max;
  Floats y(Floats x) const {
    const Floats raised = x < min ? min : x;
    return raised > max ? max : raised;
  }
  Floats slope(Floats x) const { return ((x >= min) & (x <= max)) ? Floats{} + 1 : Floats{}; }
};

struct HardSigmoid {
  Floats alpha, beta;
  Floats y(Floats x) const {
    const Floats line = alpha * x + beta;
    return line < 0 ? Floats{} : line > 1 ? Floats{} + 1 : line;
  }
  Floats slope(Floats x) const {
    const Floats line = alpha * x + beta;
    return ((line > 0) & (line < 1)) ? alpha : Floats{};
  }
};

struct HardSwish {
  static Floats y(Floats x) { return x <= -3 ? Floats{} : x >= 3 ? x : x * (x + 3) / 6; }
  static Floats slope(Floats x) { return x <= -3 ? Floats{} : x >= 3 ? Floats{} + 1 : x / 3 + 0.5F; }
};

struct LeakyRelu {
  Floats alpha;
  Floats y(Floats x) const { return x > 0 ? x : alpha * x; }
  Floats slope(Floats x) const { return x > 0 ? Floats{} + 1 : alpha; }
};

struct Sigmoid {
  static Floats y(Floats x) { return logistic(x); }
  static Floats slope(Floats y) { return y * (1 - y); }
};

struct Tanh {
  static Floats y(Floats x) { return hyperbolic_tangent(x); }
  static Floats slope(Floats y) { return 1 - y * y; }
};

// x times the normal distribution's function.
struct Gelu {
  static Floats y(Floats x) { return x * Normal(x).below; }
  static Floats slope(Floats x) {
    const Normal normal(x);
    return normal.below + x * normal.density;
  }

  struct Normal {
    Floats density, below;

    explicit Normal(Floats x) {
      // The part of the distribution beyond z, over e^(-z^2 / 2), as a function of 1 / (1 + 0.3 z); within
      // 6e-8.
      constexpr float kTail[]{6.849675557e-6F, 1.194931259e-1F,  1.218815529e-1F,
                              9.483519153e-2F, 1.421792067e-1F,  -7.599009586e-2F,
                              2.282080430e-1F, -1.689469831e-1F, 3.833313772e-2F};
      const Floats z = magnitude(x);
      const Floats e = exponential(-0.5F * x * x);
      const Floats tail = e * polynomial(kTail, 1 / (1 + 0.3F * z));
      density = 0.3989422804F * e;
      below = x < 0 ? tail : 1 - tail;
    }
  };
};

// (1 + tanh z) / 2 = 1 / (1 + e^-2z) in place of the normal distribution's function.
struct GeluTanh {
  static constexpr float kCube = 0.044715F;
  static constexpr float kTwice = 2 * 0.7978845608F;  // 2 sqrt(2 / pi)

  static Floats weight(Floats x) { return logistic(kTwice * (x + kCube * (x * x * x))); }
  static Floats y(Floats x) { return x * weight(x); }
  static Floats slope(Floats x) {
    const Floats w = weight(x);
    return w + x * w * (1 - w) * kTwice * (1 + 3 * kCube * (x * x));
  }
};

// run(F) with the type of the function.
template <typename Run>
void dispatch(const Function& function, const Run& run) {
  const Floats first = spread(function.numbers[0]);
  const Floats second = spread(function.numbers[1]);
  switch (function.kind) {
    case Function::Kind::kClip:
      return run(Clip{first, second});
    case Function::Kind::kGelu:
      return run(Gelu());
    case Function::Kind::kGeluTanh:
      return run(GeluTanh());
    case Function::Kind::kHardSigmoid:
      return run(HardSigmoid{first, second});
    case Function::Kind::kHardSwish:
      return run(HardSwish());
    case Function::Kind::kLeakyRelu:
      return run(LeakyRelu{first});
    case Function::Kind::kSigmoid:
      return run(Sigmoid());
    case Function::Kind::kTanh:
      return run(Tanh());
  }
}

}  // namespace

void map(const Function& function, Index n, const float* x, float* y) {
  dispatch(function, [=](auto f) {
    for_vectors(
        n, [=](Index i) { store(y + i, f.y(load(x + i))); },
        [=](Index i, Index count) { store_part(y + i, f.y(load_part(x + i, count)), count); });
  });
}

void map_grad(const Function& function, Index n, const float* dy, const float* v, float* dx) {
  dispatch(function, [=](auto f) {
    for_vectors(
        n, [=](Index i) { store(dx + i, load(dy + i) * f.slope(load(v + i))); },
        [=](Index i, Index count) {
          store_part(dx + i, load_part(dy + i, count) * f.slope(load_part(v + i, count)), count);
        });
  });
}

}  // namespace rookery::simd::ROOKERY_ISA
