#include "models/kernels/simd/product_grid.hpp"

#include <algorithm>
#include <limits>

#include "models/kernels/threads.hpp"

namespace rookery::simd {

Index Parts::largest() const {
  return std::min((units() + parts - 1) / parts * unit, n);
}

Range Parts::operator[](Index i) const {
  return {units() * i / parts * unit, std::min(units() * (i + 1) / parts * unit, n)};
}

Grid grid_of(Index rows, Index row_unit, Index columns, Index column_unit) {
  constexpr Index kPrepare = 6;  // products
  const Index threads = kernel_threads();
  Grid grid{{rows, row_unit, 1}, {columns, column_unit, 1}};
  Grid best = grid;
  Index least = std::numeric_limits<Index>::max();
  for (Index down = 1; down <= std::min(grid.rows.units(), threads); ++down) {
    for (Index across = 1; across <= std::min(grid.columns.units(), threads / down); ++across) {
      grid.rows.parts = down;
      grid.columns.parts = across;
      const Index m = grid.rows.largest();
      const Index n = grid.columns.largest();
      const Index time = m * n + kPrepare * (m + n);
      if (time >= least) continue;
      least = time;
      best = grid;
    }
  }
  return best;
}

void sum_blocks(Index batch, Index channels, Index plane, const float* x, float* sums) {
  in_parallel(channels / kChannelBlock, [&](Index block) {
    const Index first = block * kChannelBlock;
    std::fill_n(sums + first, kChannelBlock, 0.0F);
    for (Index image = 0; image < batch; ++image) {
      alignas(64) float of_image[kChannelBlock];
      loops().column_sums(plane, kChannelBlock, x + (image * channels + first) * plane, of_image);
      for (Index i = 0; i < kChannelBlock; ++i) sums[first + i] += of_image[i];
    }
  });
}

}  // namespace rookery::simd
