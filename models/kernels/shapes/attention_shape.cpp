#include "models/kernels/shapes/attention_shape.hpp"

#include <cmath>

namespace rookery {

namespace {

HeadPlaces places(const Shape& shape, std::int64_t rows, std::int64_t columns) {
  if (shape.rank() == 4) return {shape[1] * rows * columns, rows * columns, columns};
  return {rows * shape[2], columns, shape[2]};
}

MaskPlaces mask_places(const TensorType& mask) {
  MaskPlaces result{.is_bool = mask.dtype == DType::kBool};
  std::int64_t* const steps[] = {&result.column, &result.row, &result.head, &result.batch};
  std::int64_t size = 1;
  for (int back = 1; back <= mask.shape.rank(); ++back) {
    const std::int64_t dim = mask.shape[-back];
    *steps[back - 1] = dim == 1 ? 0 : size;
    size *= dim;
  }
  return result;
}

}  // namespace

AttentionShape attention_shape(const KernelRequest& request) {
  const std::size_t first = request.op.type == "Attention" ? 0 : 1;  // Q's place among the inputs
  Op op = request.op;
  op.inputs.erase(op.inputs.begin(), op.inputs.begin() + static_cast<std::ptrdiff_t>(first));
  const Shape& q = request.inputs[first].shape;
  const Shape& k = request.inputs[first + 1].shape;
  const Shape& v = request.inputs[first + 2].shape;
  const Shape& y = (first == 0 ? request.outputs[0] : request.inputs[0]).shape;
  AttentionShape s{};
  static_cast<AttentionSizes&>(s) = attention_sizes(op, q, k, v);
  s.is_packed = op.inputs[kAttentionK] == kNoValue;
  s.q = places(q, s.rows, s.depth);
  s.k = s.is_packed ? s.q : places(k, s.columns, s.depth);
  s.v = s.is_packed ? s.q : places(v, s.columns, s.width);
  s.y = places(y, s.rows, s.width);
  s.k_begin = s.is_packed ? s.heads * s.depth : 0;
  s.v_begin = 2 * s.k_begin;
  s.has_mask = op.inputs.size() > kAttentionMask && op.inputs[kAttentionMask] != kNoValue;
  if (s.has_mask) s.mask = mask_places(request.inputs[first + kAttentionMask]);
  s.is_causal = op.integer("is_causal", 0) != 0;
  s.scale = op.number("scale", 1 / std::sqrt(static_cast<float>(s.depth)));
  const bool is_training = first == 1 || request.outputs.size() > 1;
  const float ratio = is_training ? op.number("ratio", 0) : 0;
  s.drops = ratio > 0;
  s.threshold = static_cast<std::uint32_t>(std::ceil(static_cast<double>(ratio) * 4294967296.0));
  s.kept_scale = 1 / (1 - ratio);
  return s;
}

}  // namespace rookery
