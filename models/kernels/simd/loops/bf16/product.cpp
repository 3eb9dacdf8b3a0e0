// Matrix products of numbers in bf16.
#include "models/kernels/simd/loops/product_tiles.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

template <typename Vector>
inline __m512bh as_pairs(Vector words) {
  return reinterpret_cast<__m512bh>(words);
}

inline Floats plus_pair_products(Floats sum, Floats a, Floats b) {
  return _mm512_dpbf16_ps(sum, as_pairs(a), as_pairs(b));
}

}  // namespace

void multiply_pairs(const Product& p) {
  multiply_by_tiles<plus_pair_products>(p);
}

}  // namespace rookery::simd::ROOKERY_ISA
