#include "models/kernels/simd/product_grid.hpp"

#include <algorithm>
#include <limits>

namespace rookery::simd {

Index Parts::largest() const {
  return std::min((units() + parts - 1) / parts * unit, n);
}

Range Parts::operator[](Index i) const {
  return {units() * i / parts * unit, std::min(units() * (i + 1) / parts * unit, n)};
}

namespace {

// Of a part of m rows and n columns, in products. Half a panel takes longer than half of a panel's time.
Index time_of(Index m, Index n) {
  constexpr Index kPrepare = 6;
  constexpr Index kHalf = kPanel * 5 / 8;
  const Index columns = n / kPanel * kPanel + (n % kPanel == 0 ? 0 : kHalf);
  return m * columns + kPrepare * (m + n);
}

}  // namespace

Grid grid_of(Index rows, Index row_unit, Index columns, Index depth) {
  Grid best{{rows, row_unit, 1}, {columns, kChannelBlock, 1}};
  if (rows * columns * depth / kProductsATime < 2 * least_shared_work()) return best;
  const Index threads = kernel_threads();
  Index least = std::numeric_limits<Index>::max();
  for (const Index unit : {kPanel, kChannelBlock}) {
    Grid grid{{rows, row_unit, 1}, {columns, unit, 1}};
    for (Index down = 1; down <= std::min(grid.rows.units(), threads); ++down) {
      for (Index across = 1; across <= std::min(grid.columns.units(), threads / down); ++across) {
        grid.rows.parts = down;
        grid.columns.parts = across;
        const Index time = time_of(grid.rows.largest(), grid.columns.largest());
        if (time >= least) continue;
        least = time;
        best = grid;
      }
    }
  }
  return best;
}

void sum_blocks(Index batch, Index channels, Index plane, const float* x, float* sums) {
  in_runs(channels / kChannelBlock, batch * plane * kChannelBlock, [&](Index begin, Index count) {
    for (Index first = begin * kChannelBlock; first < (begin + count) * kChannelBlock;
         first += kChannelBlock) {
      std::fill_n(sums + first, kChannelBlock, 0.0F);
      for (Index image = 0; image < batch; ++image) {
        alignas(64) float of_image[kChannelBlock];
        loops().column_sums(plane, kChannelBlock, x + (image * channels + first) * plane, of_image);
        for (Index i = 0; i < kChannelBlock; ++i) sums[first + i] += of_image[i];
      }
    }
  });
}

}  // namespace rookery::simd
