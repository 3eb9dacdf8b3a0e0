// Scaled dot-product attention as one operator of our own.

#include <algorithm>
#include <cmath>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/attention.hpp"
#include "models/graph/ops/broadcast.hpp"
#include "models/graph/ops/families.hpp"

namespace rookery {

AttentionSizes attention_sizes(const Op& op, const Shape& q, const Shape& k, const Shape& v) {
  const bool is_packed = op.inputs.at(kAttentionK) == kNoValue;
  const std::int64_t heads = q.rank() == 4 ? q[1] : op.integer("num_heads", 0);
  if (heads < 1) throw ConfigError(fmt::format("num_heads is {}", heads));
  const auto per_head = [&](std::int64_t width) {
    if (width % heads != 0) throw ConfigError(fmt::format("{} numbers for {} heads", width, heads));
    return width / heads;
  };
  if (is_packed) {
    if (q[2] % 3 != 0) throw ConfigError(fmt::format("{} numbers are no q, k and v side by side", q[2]));
    const std::int64_t depth = per_head(q[2] / 3);
    return {q[0], heads, q[1], q[1], depth, depth};
  }
  if (q.rank() == 4) return {q[0], heads, q[2], k[2], q[3], v[3]};
  return {q[0], heads, q[1], k[1], per_head(q[2]), per_head(v[2])};
}

namespace {

void check_numbers(const Op& op) {
  const float scale = op.number("scale", 1);
  if (!std::isfinite(scale) || scale == 0) throw ConfigError(fmt::format("its scale is {}", scale));
  const float ratio = op.number("ratio", 0);
  if (!(ratio >= 0 && ratio < 1)) throw ConfigError(fmt::format("ratio {} is not in [0, 1)", ratio));
  const std::int64_t causal = op.integer("is_causal", 0);
  if (causal != 0 && causal != 1) throw ConfigError(fmt::format("is_causal is {}", causal));
}

void check_operands(const Op& op, std::span<const TensorType> inputs) {
  const Shape& q = inputs[kAttentionQ].shape;
  const bool packed = op.inputs[kAttentionK] == kNoValue && op.inputs[kAttentionV] == kNoValue;
  if (packed && q.rank() != 3) throw ConfigError("q, k and v side by side are f32[batch, rows, 3 * width]");
  if (packed) return;
  for (const std::size_t i : {kAttentionK, kAttentionV}) {
    const Shape& other = inputs[i].shape;
    if (op.inputs[i] == kNoValue) throw ConfigError("needs both k and v, or neither");
    const bool alike = other.rank() == q.rank() && other[0] == q[0] && (q.rank() == 3 || other[1] == q[1]);
    if (!alike) throw ConfigError(fmt::format("{} does not go with {}", other.to_string(), q.to_string()));
  }
  const Shape& k = inputs[kAttentionK].shape;
  const Shape& v = inputs[kAttentionV].shape;
  if (k[-1] != q[-1] || k[-2] != v[-2]) {
    throw ConfigError(
        fmt::format("q {}, k {} and v {} do not go together", q.to_string(), k.to_string(), v.to_string()));
  }
}

std::vector<TensorType> infer_attention(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.size() < 3 || inputs.size() > 4 || op.inputs[kAttentionQ] == kNoValue)
    throw ConfigError("needs q, k and v, and perhaps a mask");
  const Shape& q = inputs[kAttentionQ].shape;
  if (q.rank() != 3 && q.rank() != 4) {
    throw ConfigError("needs q, k and v as f32[batch, rows, width] or f32[batch, heads, rows, depth]");
  }
  for (std::size_t i = 0; i < 3; ++i) {
    if (inputs[i].dtype != DType::kF32) throw ConfigError("needs q, k and v of f32");
  }
  check_numbers(op);
  check_operands(op, inputs);
  const AttentionSizes s = attention_sizes(op, q, inputs[kAttentionK].shape, inputs[kAttentionV].shape);
  if (s.columns < 1) throw ConfigError("has no keys");
  if (inputs.size() > kAttentionMask && op.inputs[kAttentionMask] != kNoValue) {
    const TensorType& mask = inputs[kAttentionMask];
    if (mask.dtype != DType::kF32 && mask.dtype != DType::kBool)
      throw ConfigError("its mask must be of f32 or bool");
    const Shape scores{s.batch, s.heads, s.rows, s.columns};
    if (mask.shape.rank() > 4 || broadcast(mask.shape, scores) != scores) {
      throw ConfigError(
          fmt::format("a mask of {} does not broadcast to {}", mask.shape.to_string(), scores.to_string()));
    }
  }
  Shape y = q;
  y[-1] = q.rank() == 4 ? s.width : s.heads * s.width;
  return {{DType::kF32, y}, {DType::kF32, {s.batch, s.heads, s.rows}}};
}

void keep_log_sums(Graph& graph, OpId op) {
  graph.add_output_of(op, graph.op(op).name + ".log_sum_exp");
}

void differentiate_attention(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  const ValueId mask = op.inputs.size() > kAttentionMask ? op.inputs[kAttentionMask] : kNoValue;
  if (mask != kNoValue && builder.wants(mask)) {
    throw ConfigError(
        fmt::format("op '{}' (Attention): its mask depends on parameters and has no gradient: "
                    "use MatMul, Add and Softmax",
                    op.name));
  }
  const ValueId q = op.inputs[kAttentionQ];
  const ValueId k = op.inputs[kAttentionK];
  const ValueId v = op.inputs[kAttentionV];
  builder.add(Phase::kBackwardInputs, op, "AttentionGrad", {dy, q, k, v, mask, op.outputs[1]}, {q, k, v});
}

// Every score takes part in two products forward, of `depth` and of `width`; backward in five.
double score_products(const Op& op, const AttentionSizes& s) {
  const double scores = static_cast<double>(s.batch * s.heads * s.rows) * static_cast<double>(s.columns);
  return scores * static_cast<double>(s.depth + s.width) * (op.integer("is_causal", 0) != 0 ? 1.0 : 2.0);
}

double attention_flops(const Op& op, std::span<const TensorType> inputs, std::span<const TensorType>) {
  return score_products(op, attention_sizes(op, inputs[0].shape, inputs[1].shape, inputs[2].shape));
}

double attention_grad_flops(const Op& op, std::span<const TensorType> inputs, std::span<const TensorType>) {
  Op forward = op;
  forward.inputs.erase(forward.inputs.begin());
  return 2.5 *
         score_products(op, attention_sizes(forward, inputs[1].shape, inputs[2].shape, inputs[3].shape));
}

}  // namespace

std::vector<OpDefinition> attention_ops() {
  return {
      {.type = "Attention",
       .description = R"((Q, K?, V?, mask?) -> Y, log sum exp?: softmax(scale Q K^T + mask) V in every head.
Q[batch, rows, num_heads * depth], K[batch, columns, num_heads * depth] and V[batch, columns,
num_heads * width] make Y[batch, rows, num_heads * width]; or without num_heads
Q[batch, heads, rows, depth] and so on. Without K and V, Q[batch, rows, 3 * num_heads * depth] holds
all three side by side. Attributes: scale (1 / sqrt(depth)); is_causal (0): row i sees the columns up
to i alone; ratio (0): in training weights are dropped like elements in Dropout, where the weight of
row r, counted through batch and heads, and column c is element 16 * ceil(columns / 16) * r + c. The
mask, which has no gradient, is added to the scores, or when of bool says what is seen; it broadcasts
to [batch, heads, rows, columns]. A row that sees nothing is zero. The scores of the whole batch are
never in memory at once, and backward computes them again.
Training form: log sum exp f32[batch, heads, rows] is that of the scores of each row.)",
       .infer = infer_attention,
       .to_training = keep_log_sums,
       .differentiate = differentiate_attention,
       .flops = attention_flops},
      {.type = "AttentionGrad",
       .description = "(dY, Q, K?, V?, mask?, log sum exp) -> dQ, dK, dV",
       .flops = attention_grad_flops},
  };
}

}  // namespace rookery
