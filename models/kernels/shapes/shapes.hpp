// The sizes that an op's loops run over, resolved from its attributes and types; the same for an op
// and its gradient ops, and in either layout (op_attributes.hpp). Internal to this module.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "models/graph/ops/window.hpp"
#include "models/kernels/kernel.hpp"
#include "models/kernels/shapes/broadcasting.hpp"
#include "models/kernels/simd/loops/loops.hpp"

namespace rookery {

// Conv and ConvTranspose with their gradients: X[batch, in_channels, in_h, in_w],
// W[out_channels, in_channels / groups, kernel], Y[batch, out_channels, out_h, out_w] of a convolution.
// One-dimensional images have the height 1. ConvTranspose(Y, W) -> X is what ConvGradInput computes,
// ConvTransposeGradInput(dX, W) -> dY what Conv does, and ConvTransposeGradWeight(dX, Y) -> dW, dB has the
// inputs of ConvGradWeight in the other order; the bias is X's.
struct ConvShape {
  std::int64_t batch, in_channels, in_h, in_w;
  std::int64_t out_channels, out_h, out_w;
  std::int64_t groups;
  Window window;

  std::int64_t taps() const { return window.taps(); }
  std::int64_t in_plane() const { return in_h * in_w; }
  std::int64_t out_plane() const { return out_h * out_w; }
  std::int64_t group_in() const { return in_channels / groups; }
  std::int64_t group_out() const { return out_channels / groups; }
  // Products that make one output: the depth of the equivalent matrix product.
  std::int64_t depth() const { return group_in() * taps(); }
  std::int64_t weights() const { return out_channels * depth(); }
};

ConvShape conv_shape(const KernelRequest& request);
// Is it ConvTranspose or one of its gradients?
bool is_transposed(const Op& op);

// MaxPool, AveragePool, GlobalAveragePool and their gradients: planes [in_h, in_w] to planes [out_h, out_w].
struct PoolShape {
  std::int64_t planes, in_h, in_w, out_h, out_w;
  Window window;

  std::int64_t in_plane() const { return in_h * in_w; }
  std::int64_t out_plane() const { return out_h * out_w; }
};

PoolShape pool_shape(const KernelRequest& request);

using simd::Averaged;
// The averages of all windows along an axis (0: height, 1: width) of an average pool.
std::vector<Averaged> averaged(const KernelRequest& request, const PoolShape& shape, std::size_t axis);

// Gemm, GemmGradInput, GemmGradWeight: Y[m, n] = alpha A'B' + beta C, with A'[m, k] and B'[k, n].
struct GemmShape {
  std::int64_t m, n, k;
  bool trans_a, trans_b;
  float alpha, beta;
  bool has_c;  // C[n], or its gradient
};

GemmShape gemm_shape(const KernelRequest& request);

// MatMul, MatMulGradLeft, MatMulGradRight: products of A[m, k] and B[k, n], one for each matrix of Y. `walk`
// counts whole matrices of Y, and of A and B where they are repeated; where there is but one B, all rows of
// A are one matrix.
struct MatMulShape {
  std::int64_t m, n, k;
  std::int64_t batch;  // matrices of Y
  Broadcasting<2> walk;
  std::int64_t a_elements, b_elements;

  // for_each(Y's, A's and B's first element).
  template <typename Body>
  void for_each(Body body) const {
    walk.for_runs([&](std::int64_t place, const auto& offsets) {
      for (std::int64_t i = 0; i < walk.length(); ++i) {
        body((place + i) * m * n, (offsets[0] + i * walk.steps()[0]) * m * k,
             (offsets[1] + i * walk.steps()[1]) * k * n);
      }
    });
  }
};

MatMulShape matmul_shape(const KernelRequest& request);

// BatchNormalization, BatchNormalizationGrad: [batch, channels, plane].
struct BatchNormShape {
  std::int64_t batch, channels, plane;
  float epsilon, momentum;
  bool training;
  bool by_running;  // the gradient where mean and variance are the running ones
  // The share of running statistics that stays. PyTorch refuses single values, which have no variance.
  float kept() const { return batch * plane > 1 ? momentum : 1; }
  // In a gradient op: 1 / deviation of a channel, from its fifth input.
  float inverse(float given) const { return by_running ? 1 / std::sqrt(given + epsilon) : given; }
};

BatchNormShape batch_norm_shape(const KernelRequest& request);

// LayerNormalization, GroupNormalization, InstanceNormalization and their gradients: rows of `channels`
// runs of `plane` elements, each row normalized by itself. Run c of row r has element
// r % groups * channels + c of scale and bias.
struct RowNormShape {
  std::int64_t rows, groups, channels, plane;
  float epsilon;

  std::int64_t size() const { return channels * plane; }
  std::int64_t scales() const { return groups * channels; }
};

RowNormShape row_norm_shape(const KernelRequest& request);

// Softmax, SoftmaxGrad, CumSum: [outer, size, inner], along the middle.
struct AxisShape {
  std::int64_t outer, size, inner;
};

AxisShape axis_shape(const KernelRequest& request);

// Losses and their gradients: predictions [outer, classes, inner], the classes of each of the outer * inner
// positions `inner` apart.
struct LossShape {
  std::int64_t samples;  // the first dimension
  std::int64_t outer, classes, inner;
  bool indices;     // targets are class indices [outer, inner], else of the predictions' shape
  float weight;     // of the gradient
  float smoothing;  // of labels
  std::optional<std::int64_t> ignored;  // label of positions that do not count

  std::int64_t positions() const { return outer * inner; }
  std::int64_t elements() const { return outer * classes * inner; }
  // Where a position's first class lies.
  std::int64_t begin(std::int64_t position) const {
    return position / inner * classes * inner + position % inner;
  }
  // Is the position's label a class? False where it is the ignored one; DataError where it is neither.
  bool counts(const std::int64_t* labels, std::int64_t position) const;
};

LossShape loss_shape(const KernelRequest& request);

// The loss of a micro-batch from the sum over its positions or elements, `terms` of them; of the positions
// that count in the whole batch where `counted` is there.
float loss_of_sum(double sum, std::int64_t terms, const std::int64_t* counted, const StepContext& context);
// The factor of that sum's derivative in the gradient.
float gradient_factor(const LossShape& s, std::int64_t terms, const std::int64_t* counted,
                      const StepContext& context);
// Writes `hits` where they are wanted. DataError when more positions count here than in the whole batch.
void write_hits(std::int64_t* hits, std::int64_t correct, std::int64_t seen, const std::int64_t* counted);

// Dropout and its gradient: a word below `threshold` drops its element; the others are scaled.
struct DropoutShape {
  std::int64_t elements;
  std::uint32_t threshold;
  float scale;
};

// ConfigError when the ratio is not in [0, 1).
DropoutShape dropout_shape(const KernelRequest& request);

}  // namespace rookery
