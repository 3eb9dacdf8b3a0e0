// The exponential that functions of this folder are made of. As vector.hpp, for its .cpp files only.
#pragma once

#include "models/kernels/simd/loops/vector.hpp"

namespace rookery::simd::ROOKERY_ISA {

// e^x for x <= 0 within 2 units in the last place; about 1e-38 below -87. Reduction to |r| <= ln 2 / 2 and
// the polynomial of Cephes' expf (https://netlib.org/cephes/).
inline Floats exponential(Floats x) {
  constexpr float kLowest = -87.3F;
  constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const Floats lowest = spread(kLowest);
  x = x < lowest ? lowest : x;
  const Floats rounded = x * 1.44269504088896341F + kRounder;
  const Floats n = rounded - kRounder;
  const Floats r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  Floats p = spread(1.9875691500e-4F);
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const Ints exponent = (__builtin_convertvector(n, Ints) + 127) << 23;
  return p * reinterpret_cast<Floats>(exponent);
}

}  // namespace rookery::simd::ROOKERY_ISA
