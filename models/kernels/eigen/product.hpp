// Matrix products with Eigen, in blocks small enough that Eigen packs them on the stack: no
// allocation, and an order of summation that does not depend on the sizes of the caches.
#pragma once

#include <cstdint>

namespace rookery::eigen {

// A matrix in memory that somebody else owns: element (i, j) at data[i * stride + j], or at
// data[j * stride + i] when transposed.
struct Matrix {
  const float* data;
  std::int64_t rows, columns;
  std::int64_t stride;
  bool transposed = false;
};

// C = alpha A B, or C += alpha A B; C[a.rows, b.columns] is row-major and dense.
void multiply(const Matrix& a, const Matrix& b, float alpha, bool accumulate, float* c);

// A dense row-major matrix of rows by columns, read as it is or transposed.
inline Matrix dense(const float* data, std::int64_t rows, std::int64_t columns, bool transposed = false) {
  if (transposed) return {data, columns, rows, columns, true};
  return {data, rows, columns, columns, false};
}

}  // namespace rookery::eigen
