// Products of large matrices. Panels of both operands, of 32 rows or columns of the result, are copied side
// by side, so that what a tile reads lies line by line, whatever the matrices look like in memory. The
// operand with fewer panels is copied as a whole, those of the other pass by it, a slice of the depth at a
// time. Internal to this back end.
#pragma once

#include <cstddef>

#include "models/kernels/simd/product_grid.hpp"

namespace rookery::simd {

// An operand as columns of so many elements as the product is deep: element k of column j lies at
// data[k * down + j * right], one of which is 1.
struct Operand {
  const float* data;
  Index down, right;

  bool is_transposed() const { return right != 1; }
  const float* at(Index k, Index j) const { return data + k * down + j * right; }
};

// A matrix of so many columns as an operand: its rows, or its columns.
inline Operand rows_of(const float* data, Index columns) {
  return {data, 1, columns};
}
inline Operand columns_of(const float* data, Index columns) {
  return {data, columns, 1};
}

class PackedProduct {
 public:
  PackedProduct(Index m, Index n, Index depth);

  std::size_t scratch_bytes() const;
  // C[m, n] = A^T B + row, for m columns of A and n of B, rectified where asked. There may be no row; it can
  // be read up to the next multiple of the lanes. Each element is one sum in the order of the depth, whatever
  // threads take which panels.
  void run(const Operand& a, const Operand& b, const float* row, bool relu, float* c, float* scratch) const;

 private:
  struct Step;

  Index kept() const;
  Index passing() const;
  Index panel_floats() const;
  void pass(const Step& step, Range some, float* packed, const float* kept_panels) const;
  void multiply(const Step& step, Range rows, Range columns, const float* a, const float* b,
                bool expects_next) const;

  const Loops& loops_;
  Index m_, n_, depth_;
  bool keeps_left_;
  Index slice_;   // of the depth
  Index places_;  // of threads, for a passing panel each
};

}  // namespace rookery::simd
