// The sigmoid and the hyperbolic tangent. As vector.hpp, for the .cpp files of this folder only.
#pragma once

#include "models/kernels/simd/loops/exponential.hpp"

namespace rookery::simd::ROOKERY_ISA {

inline Floats magnitude(Floats x) {
  return x < 0 ? -x : x;
}

// c[0] + c[1] x + c[2] x^2 + …
template <int kCount>
inline Floats polynomial(const float (&c)[kCount], Floats x) {
  Floats sum = spread(c[kCount - 1]);
  for (int i = kCount - 2; i >= 0; --i) sum = sum * x + c[i];
  return sum;
}

// 1 / (1 + e^-x)
inline Floats logistic(Floats x) {
  const Floats e = exponential(-magnitude(x));
  return (x < 0 ? e : Floats{} + 1) / (e + 1);
}

inline Floats hyperbolic_tangent(Floats x) {
  // tanh(x) / x over x^2 up to 0.66^2, within 1e-8.
  constexpr float kNearZero[]{
      1.0F, -3.333321379e-1F, 1.333008062e-1F, -5.364045191e-2F, 2.034106235e-2F, -5.391692751e-3F};
  const Floats size = magnitude(x);
  const Floats e = exponential(-2 * size);
  const Floats far = (1 - e) / (1 + e);
  return size < 0.65F ? x * polynomial(kNearZero, x * x) : x < 0 ? -far : far;
}

}  // namespace rookery::simd::ROOKERY_ISA
