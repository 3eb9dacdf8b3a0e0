// Attention and its gradient; formulas as in eigen/attention.cpp. One head after the other, and of a head one
// block of rows: its scores stay in the cache, and no more of them are ever in memory. Where rows see what
// comes before them alone, a block is worked on in strips of a few rows, which compute less that is not seen.
#include <algorithm>
#include <limits>
#include <utility>

#include "models/base/rng.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/attention_shape.hpp"
#include "models/kernels/simd/product_grid.hpp"

namespace rookery::simd {
namespace {

constexpr Index kScoresInCache = 32768;  // of one of the up to three matrices of a block
constexpr Index kMostRows = 256;
constexpr Index kStrip = 16;  // blocks and strips are multiples of it, or all rows
constexpr Index kMostOfAStrip = 64;

// Rows of a head's matrix.
struct Rows {
  float* data;
  Index row;
  Rows from(Index first) const { return {data + first * row, row}; }
};
struct ConstRows {
  const float* data;
  Index row;
  ConstRows from(Index first) const { return {data + first * row, row}; }
};

// The head that is worked on, and its memory.
struct Head {
  Index batch, head;
  float* memory;
};

class Attention {
 public:
  Attention(const KernelRequest& request, bool backward)
      : s_(attention_shape(request)),
        key_(rng_key(request.seed, request.op.text("forward", request.op.name))),
        loops_(loops()),
        places_(places_for(s_.batch * s_.heads)) {
    const Index most = std::clamp<Index>(kScoresInCache / s_.stride(), kStrip, kMostRows);
    block_rows_ = std::min(most / kStrip * kStrip, s_.rows);
    strip_rows_ = block_rows_;
    if (s_.is_causal)
      strip_rows_ = std::min(std::clamp(s_.rows / 8 / kStrip * kStrip, kStrip, kMostOfAStrip), block_rows_);
    if (!backward) block_rows_ = strip_rows_;
    lay_out(backward);
  }

  std::size_t scratch_bytes() const { return float_bytes(floats_ * places_); }

  void forward(const Arguments& args) const {
    const AttentionOperands all = attention_operands(s_, args, 0);
    for_each_head(args.floats(), [&](const Head& head) {
      const ConstRows queries = of(head, s_.q, all.q), keys = of(head, s_.k, all.k);
      const Rows outputs = of(head, s_.y, args.out(0));
      loops_.transpose_whole(s_.columns, s_.depth, keys.data, keys.row, head.memory + keys_, s_.stride());
      const ConstRows values = right(of(head, s_.v, all.v), s_.columns, s_.width, head.memory + values_);
      for_slices({0, s_.rows}, strip_rows_, [&](Index first, Index end) {
        const AttentionRows rows = strip(first, end);
        score(args, 3, head, rows, queries, head.memory + weights_);
        float* const log_sums = args.out(1);
        loops_.attention_softmax(
            rows, head.memory + weights_,
            log_sums == nullptr ? nullptr : log_sums + s_.statistic(head.batch, head.head) + first);
        if (s_.drops) drop(args, head, rows, head.memory + weights_, head.memory + dropped_);
        multiply(rows.rows, s_.width, rows.columns,
                 {head.memory + (s_.drops ? dropped_ : weights_), rows.stride}, values, outputs.from(first));
      });
    });
  }

  void gradient(const Arguments& args) const {
    const AttentionOperands all = attention_operands(s_, args, 1);
    const AttentionGradients gradients = attention_gradients(s_, args);
    for_each_head(args.floats(), [&](const Head& head) {
      const ConstRows queries = of(head, s_.q, all.q), keys = of(head, s_.k, all.k);
      const ConstRows values = of(head, s_.v, all.v), dy = of(head, s_.y, args.in(0));
      loops_.transpose_whole(s_.columns, s_.depth, keys.data, keys.row, head.memory + keys_, s_.stride());
      loops_.transpose_whole(s_.columns, s_.width, values.data, values.row, head.memory + values_,
                             s_.stride());
      const ConstRows right_keys = right(keys, s_.columns, s_.depth, head.memory + plain_keys_);
      const ConstRows right_queries = right(queries, s_.rows, s_.depth, head.memory + queries_);
      const ConstRows right_dy = right(dy, s_.rows, s_.width, head.memory + outputs_);
      for_slices({0, s_.rows}, block_rows_, [&](Index begin, Index end) {
        for_slices({begin, end}, strip_rows_, [&](Index first, Index last) {
          const AttentionRows rows = strip(first, last);
          const Index at = (first - begin) * rows.stride;
          slopes_of(args, head, rows, queries, dy, at);
          if (gradients.q == nullptr) return;
          multiply(rows.rows, s_.depth, rows.columns, {head.memory + slopes_ + at, rows.stride}, right_keys,
                   of(head, s_.q, gradients.q).from(first));
        });
        if (gradients.k != nullptr)
          add_columns(head.memory + slopes_, {begin, end}, right_queries, s_.depth,
                      of(head, s_.k, gradients.k));
        if (gradients.v != nullptr) {
          add_columns(head.memory + (s_.drops ? dropped_ : weights_), {begin, end}, right_dy, s_.width,
                      of(head, s_.v, gradients.v));
        }
      });
    });
  }

 private:
  Index padded(Index columns) const { return (columns + loops_.lanes - 1) / loops_.lanes * loops_.lanes; }
  Index padded_size(Index rows, Index columns) const {
    return columns == padded(columns) ? 0 : rows * padded(columns);
  }

  void lay_out(bool backward) {
    const auto take = [&](Index count) { return std::exchange(floats_, floats_ + in_lines(count)); };
    const Index scores = block_rows_ * s_.stride();  // whole vectors, see AttentionRows
    keys_ = take(s_.depth * s_.stride());
    values_ = take(backward ? s_.width * s_.stride() : padded_size(s_.columns, s_.width));
    weights_ = take(scores);
    if (s_.drops) dropped_ = take(scores);
    if (s_.drops) mask_ = take(strip_rows_ * s_.stride() / 4);
    if (!backward) return;
    slopes_ = take(scores);
    plain_keys_ = take(padded_size(s_.columns, s_.depth));
    queries_ = take(padded_size(s_.rows, s_.depth));
    outputs_ = take(padded_size(s_.rows, s_.width));
  }
  static Index in_lines(Index floats) { return (floats + 15) / 16 * 16; }

  template <typename Body>
  void for_each_head(float* scratch, Body body) const {
    in_places(s_.batch * s_.heads, places_, [&](Index place, Index i) {
      body(Head{i / s_.heads, i % s_.heads, scratch + place * floats_});
    });
  }

  static ConstRows of(const Head& head, const HeadPlaces& places, const float* all) {
    return {all + places.at(head.batch, head.head), places.row};
  }
  static Rows of(const Head& head, const HeadPlaces& places, float* all) {
    return {all + places.at(head.batch, head.head), places.row};
  }

  // A matrix as the right operand of a product, which can be read to whole vectors.
  ConstRows right(const ConstRows& from, Index rows, Index columns, float* room) const {
    const Index row = padded(columns);
    if (row == columns) return from;
    for (Index i = 0; i < rows; ++i)
      std::fill(std::copy_n(from.from(i).data, columns, room + i * row), room + (i + 1) * row, 0.0F);
    return {room, row};
  }

  std::uint8_t* mask(const Head& head) const { return reinterpret_cast<std::uint8_t*>(head.memory + mask_); }

  // These rows, and the columns that some of them see. Where there is a mask the scores are scaled before it
  // is added.
  AttentionRows strip(Index first, Index end) const {
    return {.rows = end - first,
            .columns = s_.is_causal ? std::min(s_.columns, end) : s_.columns,
            .stride = s_.stride(),
            .is_causal = s_.is_causal,
            .seen = first + 1,
            .scale = s_.has_mask ? 1 : s_.scale};
  }
  static Index first_of(const AttentionRows& strip) { return strip.seen - 1; }

  // C[m, n] = A B, of which A has `depth` columns.
  void multiply(Index m, Index n, Index depth, const ConstRows& a, const ConstRows& b, const Rows& c) const {
    loops_.multiply({.m = m,
                     .n = n,
                     .k = depth,
                     .a = a.data,
                     .a_row = a.row,
                     .a_column = 1,
                     .b = b.data,
                     .b_row = b.row,
                     .c = c.data,
                     .c_row = c.row});
  }

  // Q K^T of a strip, with the mask.
  void score(const Arguments& args, std::size_t mask_input, const Head& head, const AttentionRows& rows,
             const ConstRows& queries, float* scores) const {
    const Index first = first_of(rows);
    multiply(rows.rows, padded(rows.columns), s_.depth, queries.from(first),
             {head.memory + keys_, s_.stride()}, {scores, rows.stride});
    if (!s_.has_mask) return;
    for (Index i = 0; i < rows.rows; ++i) {
      float* const row = scores + i * rows.stride;
      const Index begin = s_.mask.at(head.batch, head.head) + (first + i) * s_.mask.row;
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

  // The weights of a strip, and the gradients of its scores, which lie `at` in those of its block.
  void slopes_of(const Arguments& args, const Head& head, const AttentionRows& rows, const ConstRows& queries,
                 const ConstRows& dy, Index at) const {
    const Index first = first_of(rows);
    float* const weights = head.memory + weights_ + at;
    float* const slopes = head.memory + slopes_ + at;
    score(args, 4, head, rows, queries, weights);
    loops_.attention_weights(rows, weights, args.in(5) + s_.statistic(head.batch, head.head) + first);
    multiply(rows.rows, padded(rows.columns), s_.width, dy.from(first), {head.memory + values_, s_.stride()},
             {slopes, rows.stride});
    if (s_.drops) {
      drop(args, head, rows, weights, head.memory + dropped_ + at);
      for_seen(rows, [&](Index i, Index count) {
        loops_.dropout_grad(count, s_.kept_scale, slopes + i, mask(head) + i, slopes + i);
      });
    }
    AttentionRows scaled = rows;
    scaled.scale = s_.scale;
    loops_.attention_scores_grad(scaled, weights, slopes);
  }

  // body(first of them, how many) of the scores in columns that are seen, to whole vectors.
  template <typename Body>
  void for_seen(const AttentionRows& rows, Body body) const {
    const Index width = in_lines(rows.columns);
    if (width == rows.stride) return body(0, rows.rows * rows.stride);
    for (Index row = 0; row < rows.rows; ++row) body(row * rows.stride, width);
  }

  void drop(const Arguments& args, const Head& head, const AttentionRows& rows, const float* weights,
            float* dropped) const {
    const Index block = s_.first_block(head.batch, head.head, first_of(rows));
    for_seen(rows, [&](Index i, Index count) {
      loops_.dropout({.elements = count,
                      .key_low = key_.low,
                      .key_high = key_.high,
                      .stream = args.context.stream(),
                      .threshold = s_.threshold,
                      .scale = s_.kept_scale,
                      .first_block = static_cast<std::uint64_t>(block + i / 4)},
                     weights + i, dropped + i, mask(head) + i);
    });
  }

  // sums += A^T B over a block of rows, for the columns that it sees; the first block starts them. A is the
  // block's, B that of all rows.
  void add_columns(const float* a, Range rows, const ConstRows& b, Index width, const Rows& sums) const {
    // To these columns, which rows before `first` do not see.
    const auto add = [&](Index begin, Index end, Index first) {
      loops_.multiply({.m = end - begin,
                       .n = width,
                       .k = rows.end - first,
                       .a = a + (first - rows.begin) * s_.stride() + begin,
                       .a_row = 1,
                       .a_column = s_.stride(),
                       .b = b.from(first).data,
                       .b_row = b.row,
                       .c = sums.data + begin * sums.row,
                       .c_row = sums.row,
                       .accumulates = rows.begin > 0});
    };
    const Index seen_by_all = s_.is_causal ? std::min(rows.begin, s_.columns) : s_.columns;
    const Index seen = s_.is_causal ? std::min(rows.end, s_.columns) : s_.columns;
    if (seen_by_all > 0) add(0, seen_by_all, rows.begin);
    for_slices({seen_by_all, seen}, kStrip, [&](Index begin, Index end) { add(begin, end, begin); });
    if (rows.begin > 0) return;
    for (Index j = seen; j < s_.columns; ++j) std::fill_n(sums.data + j * sums.row, width, 0.0F);
  }

  AttentionShape s_;
  RngKey key_;
  const Loops& loops_;
  Index places_;  // of threads in scratch memory
  Index block_rows_ = 0, strip_rows_ = 0;
  // A head's floats, and where in them.
  Index floats_ = 0;
  Index keys_ = 0, values_ = 0;                       // transposed but for the values of the forward op
  Index weights_ = 0, dropped_ = 0, slopes_ = 0;      // of a block
  Index mask_ = 0;                                    // of a strip
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
