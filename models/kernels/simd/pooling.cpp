// MaxPool with 2 x 2 windows, 2 apart, unpadded; other windows are left to the general loops.
#include "models/kernels/backend.hpp"
#include "models/kernels/eigen/families.hpp"
#include "models/kernels/shapes.hpp"
#include "models/kernels/simd/families.hpp"
#include "models/kernels/simd/loops/loops.hpp"

namespace rookery::simd {

namespace {

bool is_halving(const PoolShape& s) {
  const Plane two{2, 2};
  return s.window.kernel == two && s.window.stride == two && s.window.dilation == Plane{1, 1} &&
         s.window.pad_begin == Plane{0, 0} && s.out_h * 2 <= s.in_h && s.out_w * 2 <= s.in_w;
}

HalvingPool halving(const PoolShape& s) {
  return {.planes = s.planes, .out_h = s.out_h, .out_w = s.out_w, .in_h = s.in_h, .in_w = s.in_w};
}

}  // namespace

std::unique_ptr<Kernel> make_max_pool(const KernelRequest& request) {
  const PoolShape s = pool_shape(request);
  if (!is_halving(s)) return eigen::make_max_pool(request);
  return lambda_kernel([p = halving(s), &all = loops()](const Arguments& args) {
    all.pool_halves(p, args.in(0), args.out(0), args.out<std::uint8_t>(1));
  });
}

std::unique_ptr<Kernel> make_max_pool_grad(const KernelRequest& request) {
  const PoolShape s = pool_shape(request);
  if (!is_halving(s)) return eigen::make_max_pool_grad(request);
  return lambda_kernel([p = halving(s), &all = loops()](const Arguments& args) {
    all.pool_halves_grad(p, args.in(0), args.in<std::uint8_t>(1), args.out(0));
  });
}

}  // namespace rookery::simd
