// Attention (Vaswani et al., arXiv 1706.03762) and its gradient, one row of scores after the other. With P
// the weights and Z the mask of dropout: Y = (P Z) V, dP = (dY V^T) Z, dV = (P Z)^T dY, dS = scale P (dP -
// rowsum(P dP)), dQ = dS K, dK = dS^T Q. Sums in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "models/base/rng.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/attention_shape.hpp"

namespace rookery::eigen {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One row of one head.
struct Row {
  std::int64_t batch, head, row;
};

template <typename Visit>
void for_each_row(const AttentionShape& s, Visit visit) {
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t i = 0; i < s.rows; ++i) visit(Row{b, h, i});
    }
  }
}

double dot(const float* a, const float* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

double masked(const AttentionShape& s, const ConstTensorView& mask, const Row& at, std::int64_t column,
              double score) {
  if (s.is_causal && column > at.row) return -kInfinity;
  if (mask.data == nullptr) return score;
  const std::int64_t place = s.mask.at(at.batch, at.head) + at.row * s.mask.row + column * s.mask.column;
  if (s.mask.is_bool) return reinterpret_cast<const bool*>(mask.data)[place] ? score : -kInfinity;
  return score + reinterpret_cast<const float*>(mask.data)[place];
}

// The scores of a row.
void score_row(const AttentionShape& s, const float* q, const float* k, const ConstTensorView& mask,
               const Row& at, double* scores) {
  const float* query = q + s.q.at(at.batch, at.head) + at.row * s.q.row;
  const float* keys = k + s.k.at(at.batch, at.head);
  for (std::int64_t j = 0; j < s.columns; ++j) {
    const double score = s.scale * dot(query, keys + j * s.k.row, s.depth);
    scores[j] = masked(s, mask, at, j, score);
  }
}

// Multiplies the weights of a row, or their gradients, with the mask of dropout.
void drop_row(const AttentionShape& s, RngKey key, std::uint64_t stream, const Row& at, double* values) {
  if (!s.drops) return;
  const auto first = static_cast<std::uint64_t>(s.first_block(at.batch, at.head, at.row));
  for (std::int64_t j = 0; j < s.columns; ++j) {
    const std::uint64_t block = first + static_cast<std::uint64_t>(j / 4);
    const PhiloxBlock words =
        philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
               key);
    const bool kept = words[j % 4] >= s.threshold;
    values[j] = kept ? values[j] * s.kept_scale : 0;
  }
}

ConstTensorView mask_of(const Arguments& args, std::size_t input) {
  return input < args.inputs.size() ? args.inputs[input] : ConstTensorView{};
}

std::unique_ptr<Kernel> make_attention(const KernelRequest& request) {
  const AttentionShape s = attention_shape(request);
  const RngKey key = rng_key(request.seed, request.op.name);
  return lambda_kernel(
      [s, key](const Arguments& args) {
        const AttentionOperands operands = attention_operands(s, args, 0);
        auto* weights = reinterpret_cast<double*>(args.scratch);
        for_each_row(s, [&](const Row& at) {
          score_row(s, operands.q, operands.k, mask_of(args, 3), at, weights);
          const double peak = *std::max_element(weights, weights + s.columns);
          double sum = 0;
          for (std::int64_t j = 0; j < s.columns; ++j) {
            weights[j] = peak == -kInfinity ? 0 : std::exp(weights[j] - peak);
            sum += weights[j];
          }
          for (std::int64_t j = 0; j < s.columns && sum > 0; ++j) weights[j] /= sum;
          if (float* log_sums = args.out(1)) {
            const double log_sum = sum > 0 || std::isnan(sum) ? peak + std::log(sum) : kInfinity;
            log_sums[s.statistic(at.batch, at.head) + at.row] = static_cast<float>(log_sum);
          }
          drop_row(s, key, args.context.stream(), at, weights);
          float* y = args.out(0) + s.y.at(at.batch, at.head) + at.row * s.y.row;
          const float* values = operands.v + s.v.at(at.batch, at.head);
          for (std::int64_t c = 0; c < s.width; ++c) {
            double total = 0;
            for (std::int64_t j = 0; j < s.columns; ++j) total += weights[j] * values[j * s.v.row + c];
            y[c] = static_cast<float>(total);
          }
        });
      },
      static_cast<std::size_t>(s.columns) * sizeof(double));
}

std::unique_ptr<Kernel> make_attention_grad(const KernelRequest& request) {
  const AttentionShape s = attention_shape(request);
  const RngKey key = rng_key(request.seed, request.op.text("forward", request.op.name));
  const std::int64_t doubles = s.columns * (3 + s.depth + s.width);
  return lambda_kernel(
      [s, key](const Arguments& args) {
        const AttentionOperands operands = attention_operands(s, args, 1);
        const AttentionGradients gradients = attention_gradients(s, args);
        auto* weights = reinterpret_cast<double*>(args.scratch);
        double* dropped = weights + s.columns;
        double* slopes = dropped + s.columns;
        double* dk = slopes + s.columns;
        double* dv = dk + s.columns * s.depth;
        for_each_row(s, [&](const Row& at) {
          if (at.row == 0) std::fill_n(dk, s.columns * (s.depth + s.width), 0.0);
          const std::uint64_t stream = args.context.stream();
          const float* dy = args.in(0) + s.y.at(at.batch, at.head) + at.row * s.y.row;
          const float* query = operands.q + s.q.at(at.batch, at.head) + at.row * s.q.row;
          const float* keys = operands.k + s.k.at(at.batch, at.head);
          const float* values = operands.v + s.v.at(at.batch, at.head);
          score_row(s, operands.q, operands.k, mask_of(args, 4), at, weights);
          const double log_sum = args.in(5)[s.statistic(at.batch, at.head) + at.row];
          double sum = 0;
          for (std::int64_t j = 0; j < s.columns; ++j) {
            weights[j] = log_sum == kInfinity ? 0 : std::exp(weights[j] - log_sum);
            sum += weights[j];
            slopes[j] = dot(dy, values + j * s.v.row, s.width);
          }
          // In floats the logarithm of a sum has few digits, as of scores that a mask of -1e9 hides.
          for (std::int64_t j = 0; sum > 0 && j < s.columns; ++j) weights[j] /= sum;
          std::copy_n(weights, s.columns, dropped);
          drop_row(s, key, stream, at, dropped);
          drop_row(s, key, stream, at, slopes);
          double mean = 0;
          for (std::int64_t j = 0; j < s.columns; ++j) mean += weights[j] * slopes[j];
          for (std::int64_t j = 0; j < s.columns; ++j) {
            const double slope = s.scale * weights[j] * (slopes[j] - mean);
            slopes[j] = slope;
            for (std::int64_t c = 0; c < s.depth; ++c) dk[j * s.depth + c] += slope * query[c];
            for (std::int64_t c = 0; c < s.width; ++c) dv[j * s.width + c] += dropped[j] * dy[c];
          }
          if (gradients.q != nullptr) {
            float* dq = gradients.q + s.q.at(at.batch, at.head) + at.row * s.q.row;
            for (std::int64_t c = 0; c < s.depth; ++c) {
              double total = 0;
              for (std::int64_t j = 0; j < s.columns; ++j) total += slopes[j] * keys[j * s.k.row + c];
              dq[c] = static_cast<float>(total);
            }
          }
          if (at.row + 1 < s.rows) return;
          for (std::int64_t j = 0; j < s.columns; ++j) {
            if (gradients.k != nullptr)
              std::copy_n(dk + j * s.depth, s.depth, gradients.k + s.k.at(at.batch, at.head) + j * s.k.row);
            if (gradients.v != nullptr)
              std::copy_n(dv + j * s.width, s.width, gradients.v + s.v.at(at.batch, at.head) + j * s.v.row);
          }
        });
      },
      static_cast<std::size_t>(doubles) * sizeof(double));
}

}  // namespace

void add_attention(KernelTable& table) {
  table.add("Attention", {make_attention});
  table.add("AttentionGrad", {make_attention_grad});
}

}  // namespace rookery::eigen
