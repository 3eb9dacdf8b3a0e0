// LayerNormalization and its gradient.
#include <algorithm>

#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"
#include "models/kernels/simd/loops/loops.hpp"
#include "models/kernels/threads.hpp"

namespace rookery::simd {
namespace {

LayerNorm layer_norm(const KernelRequest& request) {
  const RowNormShape s = row_norm_shape(request);
  return {.rows = s.rows, .n = s.size(), .epsilon = s.epsilon};
}

std::unique_ptr<Kernel> make_layer_norm(const KernelRequest& request) {
  return lambda_kernel([s = layer_norm(request), &all = loops()](const Arguments& args) {
    in_runs(s.rows, s.n, [&](Index row, Index rows) {
      LayerNorm some = s;
      some.rows = rows;
      const auto from = [row](float* statistic) { return statistic == nullptr ? nullptr : statistic + row; };
      all.layer_norm(some, args.in(0) + row * s.n, args.in(1), args.in(2), args.out(0) + row * s.n,
                     from(args.out(1)), from(args.out(2)));
    });
  });
}

// Rows whose sums are made together; the sums of such runs are added in their order.
constexpr Index kRun = 64;

std::unique_ptr<Kernel> make_layer_norm_grad(const KernelRequest& request) {
  const LayerNorm s = layer_norm(request);
  const Index runs = (s.rows + kRun - 1) / kRun;
  // Of a run: dscale and dbias, and what the loop needs.
  const Index room = 4 * s.n;
  return lambda_kernel(
      [=, &all = loops()](const Arguments& args) {
        in_runs(runs, kRun * s.n, [&](Index first, Index count) {
          for (Index run = first; run < first + count; ++run) {
            LayerNorm some = s;
            some.rows = std::min(kRun, s.rows - run * kRun);
            const Index row = run * kRun;
            const Index at = row * s.n;
            float* const sums = args.floats() + run * room;
            all.layer_norm_grad(some, args.in(0) + at, args.in(1) + at, args.in(2), args.in(3) + row,
                                args.in(4) + row, args.out(0) == nullptr ? nullptr : args.out(0) + at, sums,
                                sums + s.n, sums + 2 * s.n);
          }
        });
        for (const std::size_t output : {1, 2}) {
          if (args.out(output) == nullptr) continue;
          if (runs == 0) {
            std::fill_n(args.out(output), s.n, 0.0F);
            continue;
          }
          const float* const first = args.floats() + (output == 1 ? 0 : s.n);
          std::copy_n(first, s.n, args.out(output));
          for (Index run = 1; run < runs; ++run)
            all.add(s.n, args.out(output), first + run * room, args.out(output));
        }
      },
      float_bytes(runs * room));
}

}  // namespace

void add_layer_norm(KernelTable& table) {
  table.add("LayerNormalization", {make_layer_norm});
  table.add("LayerNormalizationGrad", {make_layer_norm_grad});
}

}  // namespace rookery::simd
