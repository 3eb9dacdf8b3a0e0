// Attention and its gradient; formulas as in eigen/attention.cpp. One head after the other, and of a head one
// block of rows: its scores stay in the cache, and no more of them are ever in memory.
#include <algorithm>
#include <limits>

#include "models/base/rng.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/attention_shape.hpp"
#include "models/kernels/simd/loops/loops.hpp"
#include "models/kernels/threads.hpp"

namespace rookery::simd {
namespace {

constexpr Index kScoresInCache = 32768;  // of one of the up to three matrices of a block
constexpr Index kMostRows = 256;
constexpr Index kMostCausalRows = 64;  // shorter blocks compute less that is not seen

// A matrix as the right operand of a product: rows by columns, readable up to whole vectors.
struct Right {
  const float* data;
  Index row;
};

class Attention {
 public:
  Attention(const KernelRequest& request, bool backward)
      : s_(attention_shape(request)),
        key_(rng_key(request.seed, request.op.text("forward", request.op.name))),
        loops_(loops()),
        places_(places_for(s_.batch * s_.heads)) {
    block_rows_ =
        std::clamp<Index>(kScoresInCache / s_.stride(), 16, s_.is_causal ? kMostCausalRows : kMostRows);
    block_rows_ = std::min(block_rows_, s_.rows);
    const Index scores = block_rows_ * s_.stride();  // whole vectors, see AttentionRows
    keys_ = take(s_.depth * s_.stride());
    scores_ = take(scores);
    if (s_.drops) dropped_ = take(scores);
    if (s_.drops) mask_ = take(scores / 4);
    if (!backward) {
      values_ = take(padded_size(s_.columns, s_.width));
      return;
    }
    values_ = take(s_.width * s_.stride());
    slopes_ = take(scores);
    plain_keys_ = take(padded_size(s_.columns, s_.depth));
    queries_ = take(padded_size(s_.rows, s_.depth));
    outputs_ = take(padded_size(s_.rows, s_.width));
  }

  std::size_t scratch_bytes() const { return float_bytes(floats_ * places_); }

  void forward(const Arguments& args) const {
    const AttentionOperands all = attention_operands(s_, args, 0);
    for_each_head([&](Index b, Index h, Index place) {
      float* const scratch = args.floats() + place * floats_;
      loops_.transpose_whole(s_.columns, s_.depth, all.k + s_.k.at(b, h), s_.k.row, scratch + keys_,
                             s_.stride());
      const Right v = right(all.v + s_.v.at(b, h), s_.v.row, s_.columns, s_.width, scratch + values_);
      for (Index first = 0; first < s_.rows; first += block_rows_) {
        const AttentionRows rows = block(first);
        float* weights = scratch + scores_;
        score(args, 3, b, h, first, rows, all.q, scratch);
        float* log_sums = args.out(1);
        loops_.attention_softmax(rows, weights,
                                 log_sums == nullptr ? nullptr : log_sums + s_.statistic(b, h) + first);
        if (s_.drops) {
          drop(args, b, h, first, rows.rows, weights, scratch + dropped_, scratch);
          weights = scratch + dropped_;
        }
        loops_.multiply({.m = rows.rows,
                         .n = s_.width,
                         .k = rows.columns,
                         .a = weights,
                         .a_row = rows.stride,
                         .a_column = 1,
                         .b = v.data,
                         .b_row = v.row,
                         .c = args.out(0) + s_.y.at(b, h) + first * s_.y.row,
                         .c_row = s_.y.row});
      }
    });
  }

  void gradient(const Arguments& args) const {
    const AttentionOperands all = attention_operands(s_, args, 1);
    const AttentionGradients gradients = attention_gradients(s_, args);
    for_each_head([&](Index b, Index h, Index place) {
      float* const scratch = args.floats() + place * floats_;
      loops_.transpose_whole(s_.columns, s_.depth, all.k + s_.k.at(b, h), s_.k.row, scratch + keys_,
                             s_.stride());
      loops_.transpose_whole(s_.columns, s_.width, all.v + s_.v.at(b, h), s_.v.row, scratch + values_,
                             s_.stride());
      const Right k = right(all.k + s_.k.at(b, h), s_.k.row, s_.columns, s_.depth, scratch + plain_keys_);
      const Right q = right(all.q + s_.q.at(b, h), s_.q.row, s_.rows, s_.depth, scratch + queries_);
      const float* const dy_head = args.in(0) + s_.y.at(b, h);
      const Right dy = right(dy_head, s_.y.row, s_.rows, s_.width, scratch + outputs_);
      for (Index first = 0; first < s_.rows; first += block_rows_) {
        const AttentionRows rows = block(first);
        float* const weights = scratch + scores_;
        float* const slopes = scratch + slopes_;
        const float* dropped = weights;
        score(args, 4, b, h, first, rows, all.q, scratch);
        loops_.attention_weights(rows, weights, args.in(5) + s_.statistic(b, h) + first);
        loops_.multiply({.m = rows.rows,
                         .n = padded(rows.columns),
                         .k = s_.width,
                         .a = dy_head + first * s_.y.row,
                         .a_row = s_.y.row,
                         .a_column = 1,
                         .b = scratch + values_,
                         .b_row = s_.stride(),
                         .c = slopes,
                         .c_row = rows.stride});
        if (s_.drops) {
          drop(args, b, h, first, rows.rows, weights, scratch + dropped_, scratch);
          dropped = scratch + dropped_;
          loops_.dropout_grad(rows.rows * rows.stride, s_.kept_scale, slopes, mask(scratch), slopes);
        }
        AttentionRows scaled = rows;
        scaled.scale = s_.scale;
        loops_.attention_scores_grad(scaled, weights, slopes);
        if (gradients.q != nullptr) {
          loops_.multiply({.m = rows.rows,
                           .n = s_.depth,
                           .k = rows.columns,
                           .a = slopes,
                           .a_row = rows.stride,
                           .a_column = 1,
                           .b = k.data,
                           .b_row = k.row,
                           .c = gradients.q + s_.q.at(b, h) + first * s_.q.row,
                           .c_row = s_.q.row});
        }
        if (gradients.k != nullptr) {
          add_columns(slopes, first, rows, {q.data + first * q.row, q.row}, s_.depth,
                      gradients.k + s_.k.at(b, h), s_.k.row);
        }
        if (gradients.v != nullptr) {
          add_columns(dropped, first, rows, {dy.data + first * dy.row, dy.row}, s_.width,
                      gradients.v + s_.v.at(b, h), s_.v.row);
        }
      }
    });
  }

 private:
  Index take(Index count) {
    const Index begin = floats_;
    floats_ += (count + 15) / 16 * 16;
    return begin;
  }
  Index padded(Index columns) const { return (columns + loops_.lanes - 1) / loops_.lanes * loops_.lanes; }
  Index padded_size(Index rows, Index columns) const {
    return columns == padded(columns) ? 0 : rows * padded(columns);
  }

  // body(image of the batch, head, place of the scratch memory)
  template <typename Body>
  void for_each_head(Body body) const {
    in_places(s_.batch * s_.heads, places_,
              [&](Index place, Index i) { body(i / s_.heads, i % s_.heads, place); });
  }

  // The rows from `first` on, and the columns that some of them see. Where there is a mask the scores are
  // scaled before it is added.
  AttentionRows block(Index first) const {
    const Index count = std::min(block_rows_, s_.rows - first);
    return {.rows = count,
            .columns = s_.is_causal ? std::min(s_.columns, first + count) : s_.columns,
            .stride = s_.stride(),
            .is_causal = s_.is_causal,
            .seen = first + 1,
            .scale = s_.has_mask ? 1 : s_.scale};
  }

  Right right(const float* from, Index from_row, Index rows, Index columns, float* room) const {
    const Index row = padded(columns);
    if (row == columns) return {from, from_row};
    for (Index i = 0; i < rows; ++i) {
      std::copy_n(from + i * from_row, columns, room + i * row);
      std::fill_n(room + i * row + columns, row - columns, 0.0F);
    }
    return {room, row};
  }

  // Q K^T of a block, with the mask.
  void score(const Arguments& args, std::size_t mask_input, Index b, Index h, Index first,
             const AttentionRows& rows, const float* q, float* scratch) const {
    float* const scores = scratch + scores_;
    loops_.multiply({.m = rows.rows,
                     .n = padded(rows.columns),
                     .k = s_.depth,
                     .a = q + s_.q.at(b, h) + first * s_.q.row,
                     .a_row = s_.q.row,
                     .a_column = 1,
                     .b = scratch + keys_,
                     .b_row = s_.stride(),
                     .c = scores,
                     .c_row = rows.stride});
    if (!s_.has_mask) return;
    for (Index i = 0; i < rows.rows; ++i) {
      float* const row = scores + i * rows.stride;
      const Index begin = s_.mask.at(b, h) + (first + i) * s_.mask.row;
      if (s_.mask.is_bool) {
        const bool* seen = args.in<bool>(mask_input) + begin;
        for (Index j = 0; j < rows.columns; ++j) {
          row[j] = seen[j * s_.mask.column] ? row[j] * s_.scale : -std::numeric_limits<float>::infinity();
        }
      } else {
        const float* added = args.in(mask_input) + begin;
        for (Index j = 0; j < rows.columns; ++j) row[j] = row[j] * s_.scale + added[j * s_.mask.column];
      }
    }
  }

  std::uint8_t* mask(float* scratch) const { return reinterpret_cast<std::uint8_t*>(scratch + mask_); }

  void drop(const Arguments& args, Index b, Index h, Index first, Index rows, const float* weights,
            float* dropped, float* scratch) const {
    loops_.dropout({.elements = rows * s_.stride(),
                    .key_low = key_.low,
                    .key_high = key_.high,
                    .stream = args.context.stream(),
                    .threshold = s_.threshold,
                    .scale = s_.kept_scale,
                    .first_block = static_cast<std::uint64_t>(s_.first_block(b, h, first))},
                   weights, dropped, mask(scratch));
  }

  // sums += A^T B for the columns that the block sees; the first block starts them.
  void add_columns(const float* a, Index first, const AttentionRows& rows, const Right& b, Index width,
                   float* sums, Index sums_row) const {
    loops_.multiply({.m = rows.columns,
                     .n = width,
                     .k = rows.rows,
                     .a = a,
                     .a_row = 1,
                     .a_column = rows.stride,
                     .b = b.data,
                     .b_row = b.row,
                     .c = sums,
                     .c_row = sums_row,
                     .accumulates = first > 0});
    if (first > 0) return;
    for (Index j = rows.columns; j < s_.columns; ++j) std::fill_n(sums + j * sums_row, width, 0.0F);
  }

  AttentionShape s_;
  RngKey key_;
  const Loops& loops_;
  Index block_rows_ = 0;
  Index places_;  // of threads in scratch memory, each with so many floats
  Index floats_ = 0;
  // Where in them.
  Index keys_ = 0, values_ = 0;  // transposed but for the values of the forward op
  Index scores_ = 0, slopes_ = 0, dropped_ = 0, mask_ = 0;
  Index plain_keys_ = 0, queries_ = 0, outputs_ = 0;  // where their rows are no whole vectors
};

std::unique_ptr<Kernel> make_attention(const KernelRequest& request) {
  const Attention attention(request, false);
  return lambda_kernel([attention](const Arguments& args) { attention.forward(args); },
                       attention.scratch_bytes());
}

std::unique_ptr<Kernel> make_attention_grad(const KernelRequest& request) {
  const Attention attention(request, true);
  return lambda_kernel([attention](const Arguments& args) { attention.gradient(args); },
                       attention.scratch_bytes());
}

}  // namespace

void add_attention(KernelTable& table) {
  table.add("Attention", {make_attention});
  table.add("AttentionGrad", {make_attention_grad});
}

}  // namespace rookery::simd
