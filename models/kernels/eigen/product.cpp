#include "models/kernels/eigen/product.hpp"

#include <Eigen/Core>
#include <algorithm>

#include "models/base/check.hpp"

namespace rookery::eigen {

namespace {

// Two packed blocks of these sizes are 128 KiB each, which is EIGEN_STACK_ALLOCATION_LIMIT.
constexpr std::int64_t kBlock = 128;
constexpr std::int64_t kDepthBlock = 256;

template <int kOrder>
using View = Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, kOrder>, Eigen::Unaligned,
                        Eigen::OuterStride<>>;
using Target = Eigen::Map<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

template <int kOrder>
View<kOrder> view(const Matrix& matrix) {
  return {matrix.data, matrix.rows, matrix.columns, Eigen::OuterStride<>(matrix.stride)};
}

template <typename A, typename B>
void multiply_blocks(const A& a, const B& b, float alpha, bool accumulate, Target& c) {
  if (!accumulate) c.setZero();
  for (std::int64_t i = 0; i < a.rows(); i += kBlock) {
    const std::int64_t rows = std::min(kBlock, a.rows() - i);
    for (std::int64_t j = 0; j < b.cols(); j += kBlock) {
      const std::int64_t columns = std::min(kBlock, b.cols() - j);
      for (std::int64_t k = 0; k < a.cols(); k += kDepthBlock) {
        const std::int64_t depth = std::min(kDepthBlock, a.cols() - k);
        c.block(i, j, rows, columns).noalias() +=
            alpha * a.block(i, k, rows, depth) * b.block(k, j, depth, columns);
      }
    }
  }
}

}  // namespace

void multiply(const Matrix& a, const Matrix& b, float alpha, bool accumulate, float* c) {
  ROOKERY_CHECK(a.columns == b.rows, "{} columns times {} rows", a.columns, b.rows);
  Target target(c, a.rows, b.columns);
  constexpr int kRow = Eigen::RowMajor;
  constexpr int kColumn = Eigen::ColMajor;
  if (a.transposed && b.transposed) {
    multiply_blocks(view<kColumn>(a), view<kColumn>(b), alpha, accumulate, target);
  } else if (a.transposed) {
    multiply_blocks(view<kColumn>(a), view<kRow>(b), alpha, accumulate, target);
  } else if (b.transposed) {
    multiply_blocks(view<kRow>(a), view<kColumn>(b), alpha, accumulate, target);
  } else {
    multiply_blocks(view<kRow>(a), view<kRow>(b), alpha, accumulate, target);
  }
}

}  // namespace rookery::eigen
