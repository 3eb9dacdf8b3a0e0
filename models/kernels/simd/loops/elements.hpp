// Parts of arrays that end where the array does. As vector.hpp, for the .cpp files of this folder only.
#pragma once

#include "models/kernels/simd/loops/vector.hpp"

namespace rookery::simd::ROOKERY_ISA {

// `count` elements from x[i] on, no more than a vector has; 0 behind them.
inline Floats elements(const float* x, Index i, Index count) {
  return count == kLanes ? load(x + i) : load_part(x + i, count);
}

}  // namespace rookery::simd::ROOKERY_ISA
