// The places of the heads of Attention and AttentionGrad in their tensors. Internal to this module.
#pragma once

#include <cstdint>

#include "models/graph/ops/attention.hpp"
#include "models/kernels/backend.hpp"

namespace rookery {

// A matrix for every head: element (i, j) at at(batch, head) + i * row + j.
struct HeadPlaces {
  std::int64_t batch, head, row;
  std::int64_t at(std::int64_t b, std::int64_t h) const { return b * batch + h * head; }
};

// Steps are 0 along what is repeated.
struct MaskPlaces {
  bool is_bool = false;
  std::int64_t batch = 0, head = 0, row = 0, column = 0;
  std::int64_t at(std::int64_t b, std::int64_t h) const { return b * batch + h * head; }
};

struct AttentionShape : AttentionSizes {
  HeadPlaces q, k, v, y;
  std::int64_t k_begin, v_begin;  // in the memory of Q, where K and V are absent
  bool is_packed;
  bool has_mask;
  MaskPlaces mask;
  bool is_causal;
  float scale;
  bool drops;  // a word below `threshold` drops its weight; the others are scaled
  std::uint32_t threshold;
  float kept_scale;

  // The length of a row of scores in memory, whatever the instruction set; what dropout counts by.
  std::int64_t stride() const { return (columns + 15) / 16 * 16; }
  std::int64_t first_block(std::int64_t b, std::int64_t h, std::int64_t row) const {
    return ((b * heads + h) * rows + row) * (stride() / 4);
  }
  std::int64_t statistic(std::int64_t b, std::int64_t h) const { return (b * heads + h) * rows; }
};

AttentionShape attention_shape(const KernelRequest& request);

struct AttentionOperands {
  const float *q, *k, *v;
};
// `first`: the place of Q among the inputs.
inline AttentionOperands attention_operands(const AttentionShape& s, const Arguments& args,
                                            std::size_t first) {
  const float* q = args.in(first);
  if (s.is_packed) return {q, q + s.k_begin, q + s.v_begin};
  return {q, args.in(first + 1), args.in(first + 2)};
}

// Absent where nobody wants them.
struct AttentionGradients {
  float *q, *k, *v;
};
inline AttentionGradients attention_gradients(const AttentionShape& s, const Arguments& args) {
  float* q = args.out(0);
  if (s.is_packed) return {q, q + s.k_begin, q + s.v_begin};
  return {q, args.out(1), args.out(2)};
}

}  // namespace rookery
