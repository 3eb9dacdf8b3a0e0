// LayerNormalization and its gradient.
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"
#include "models/kernels/simd/loops/loops.hpp"

namespace rookery::simd {
namespace {

LayerNorm layer_norm(const KernelRequest& request) {
  const RowNormShape s = row_norm_shape(request);
  return {.rows = s.rows, .n = s.size(), .epsilon = s.epsilon};
}

std::unique_ptr<Kernel> make_layer_norm(const KernelRequest& request) {
  return lambda_kernel([s = layer_norm(request), &all = loops()](const Arguments& args) {
    all.layer_norm(s, args.in(0), args.in(1), args.in(2), args.out(0), args.out(1), args.out(2));
  });
}

std::unique_ptr<Kernel> make_layer_norm_grad(const KernelRequest& request) {
  const LayerNorm s = layer_norm(request);
  return lambda_kernel(
      [s, &all = loops()](const Arguments& args) {
        float* const sums = args.floats();
        float* const dscale = args.out(1) != nullptr ? args.out(1) : sums + 2 * s.n;
        float* const dbias = args.out(2) != nullptr ? args.out(2) : sums + 3 * s.n;
        all.layer_norm_grad(s, args.in(0), args.in(1), args.in(2), args.in(3), args.in(4), args.out(0),
                            dscale, dbias, sums);
      },
      float_bytes(4 * s.n));
}

}  // namespace

void add_layer_norm(KernelTable& table) {
  table.add("LayerNormalization", {make_layer_norm});
  table.add("LayerNormalizationGrad", {make_layer_norm_grad});
}

}  // namespace rookery::simd
