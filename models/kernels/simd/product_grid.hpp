// Matrix products in panels, and how threads take parts of those over channels of images in blocks: each a
// part of the rows and of the columns, from end to end, so that it neither waits for others nor reads what
// they have just written. Results do not depend on the parts. Internal to this back end.
#pragma once

#include "models/graph/op_attributes.hpp"
#include "models/kernels/simd/loops/loops.hpp"
#include "models/kernels/threads.hpp"

namespace rookery::simd {

// The rows and columns that a product takes at once; matrices lie in panels of so many columns.
constexpr Index kRows = 8;
static_assert(kImageBlock == kChannelBlock);
constexpr Index kPanel = 2 * kImageBlock;
constexpr Index panels(Index channels) {
  return (channels + kPanel - 1) / kPanel;
}

// Products in the time of an operation of other loops.
constexpr Index kProductsATime = 16;

struct Range {
  Index begin, end;
  Index size() const { return end - begin; }
};

// body(begin, end) for slices of a range.
template <typename Body>
void for_slices(Range range, Index size, Body body) {
  for (Index begin = range.begin; begin < range.end; begin += size)
    body(begin, begin + size < range.end ? begin + size : range.end);
}

// The size of slices of n, nearly alike, of at most so many.
constexpr Index even_slice(Index n, Index most) {
  const Index count = n > most ? (n + most - 1) / most : 1;
  return (n + count - 1) / count;
}

// n in so many parts, each of whole units but for the last.
struct Parts {
  Index n, unit, parts;
  Index units() const { return (n + unit - 1) / unit; }
  Index largest() const;
  Range operator[](Index i) const;
};

struct Grid {
  Parts rows, columns;
  Index count() const { return rows.parts * columns.parts; }
};

// The parts that the threads there are have done soonest, no more than there are threads: one where there is
// too little to share. Rows are in units, columns in blocks of channels; each result is a sum of `depth`
// products. A part prepares its rows and columns by itself, which costs about as much as a few products.
Grid grid_of(Index rows, Index row_unit, Index columns, Index depth);

// body(place, rows, columns) for each part; nobody else is at that place, of grid.count(), meanwhile.
template <typename Body>
void in_parts(const Grid& grid, Body body) {
  in_places(grid.count(), grid.count(), [&](Index place, Index part) {
    body(place, grid.rows[part / grid.columns.parts], grid.columns[part % grid.columns.parts]);
  });
}

// sums[c] = sum of channel c of images in blocks.
void sum_blocks(Index batch, Index channels, Index plane, const float* x, float* sums);

}  // namespace rookery::simd
