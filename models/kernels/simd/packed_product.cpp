#include "models/kernels/simd/packed_product.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "models/kernels/backend.hpp"

namespace rookery::simd {
namespace {

constexpr Index kMostDepth = 1024;  // of a slice: two panels of it stay in a core's cache

// How far `to` is from `from`, in floats: of addresses, since they belong to different tensors.
Index distance(const float* from, const float* to) {
  return (reinterpret_cast<std::intptr_t>(to) - reinterpret_cast<std::intptr_t>(from)) /
         static_cast<std::intptr_t>(sizeof(float));
}

// to[depth][32]: a slice of some columns; behind the last one zeros, to a whole vector at least.
void pack(const Operand& from, Range depth, Range columns, float* to) {
  constexpr Index kAhead = 64;  // rows that no processor expects
  const float* data = from.at(depth.begin, columns.begin);
  if (from.is_transposed())
    return loops().transpose_whole(columns.size(), depth.size(), data, from.right, to, kPanel);
  for (Index k = 0; k < depth.size(); ++k, data += from.down, to += kPanel) {
    __builtin_prefetch(data + kAhead * from.down, 0, 2);
    __builtin_prefetch(data + kAhead * from.down + kImageBlock, 0, 2);
    if (columns.size() == kPanel) {
      std::memcpy(to, data, kPanel * sizeof(float));
    } else {
      std::fill(std::copy_n(data, columns.size(), to), to + kPanel, 0.0F);
    }
  }
}

Range panel(Index i, Index columns) {
  return {i * kPanel, std::min((i + 1) * kPanel, columns)};
}

}  // namespace

struct PackedProduct::Step {
  const Operand &keeps, &passes;
  const float* row;
  bool relu;
  float* c;
  Range depth;
};

PackedProduct::PackedProduct(Index m, Index n, Index depth)
    : loops_(loops()),
      m_(m),
      n_(n),
      depth_(depth),
      keeps_left_(m < n),
      slice_(even_slice(depth, kMostDepth)),
      places_(places_for(panels(passing()))) {}

Index PackedProduct::kept() const {
  return std::min(m_, n_);
}

Index PackedProduct::passing() const {
  return std::max(m_, n_);
}

Index PackedProduct::panel_floats() const {
  return slice_ * kPanel;
}

std::size_t PackedProduct::scratch_bytes() const {
  return float_bytes((panels(kept()) + places_) * panel_floats());
}

void PackedProduct::run(const Operand& a, const Operand& b, const float* row, bool relu, float* c,
                        float* scratch) const {
  for_slices({0, depth_}, slice_, [&](Index begin, Index end) {
    const Step step{keeps_left_ ? a : b, keeps_left_ ? b : a, row, relu, c, {begin, end}};
    in_parallel(panels(kept()), [&](Index i) {
      pack(step.keeps, step.depth, panel(i, kept()), scratch + i * panel_floats());
    });
    float* const of_places = scratch + panels(kept()) * panel_floats();
    in_places(panels(passing()), places_, [&](Index place, Index i) {
      pass(step, panel(i, passing()), of_places + place * panel_floats(), scratch);
    });
  });
}

void PackedProduct::pass(const Step& step, Range some, float* packed, const float* kept_panels) const {
  pack(step.passes, step.depth, some, packed);
  for (Index i = 0; i < panels(kept()); ++i) {
    const float* const other = kept_panels + i * panel_floats();
    const bool is_last = i + 1 == panels(kept());
    if (keeps_left_) {
      multiply(step, panel(i, kept()), some, other, packed, is_last);
    } else {
      multiply(step, some, panel(i, kept()), packed, other, false);
    }
  }
}

// `expects_next`: the next panel of B is packed soon.
void PackedProduct::multiply(const Step& step, Range rows, Range columns, const float* a, const float* b,
                             bool expects_next) const {
  const bool is_first = step.depth.begin == 0;
  Product product{.m = rows.size(),
                  .n = columns.size(),
                  .k = step.depth.size(),
                  .a = a,
                  .a_row = 1,
                  .a_column = kPanel,
                  .b = b,
                  .b_row = kPanel,
                  .c = step.c + rows.begin * n_ + columns.begin,
                  .c_row = n_,
                  .columns = is_first && step.row != nullptr ? step.row + columns.begin : nullptr,
                  .relu = step.relu && step.depth.end == depth_,
                  .accumulates = !is_first,
                  .a_ahead = keeps_left_ ? panel_floats() : 0,
                  .b_ahead = keeps_left_ ? 0 : panel_floats(),
                  .c_ahead = keeps_left_ ? kPanel * n_ : kPanel};
  if (expects_next && (slice_ == depth_ || !step.passes.is_transposed())) {
    product.b_ahead = distance(b, step.passes.at(step.depth.begin, columns.end));
    product.b_ahead_row = step.passes.is_transposed() ? kPanel : step.passes.down;
  }
  loops_.multiply(product);
}

}  // namespace rookery::simd
