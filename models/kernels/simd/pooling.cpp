// Average pools; MaxPool with 2 x 2 windows, 2 apart, unpadded, while other maxima are left to the general
// loops.
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"
#include "models/kernels/simd/loops/loops.hpp"
#include "models/kernels/threads.hpp"

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

// body(some planes, where they begin in the input and in the output). As many as let vectors begin there.
template <typename Body>
void for_planes(const HalvingPool& all, Body body) {
  in_runs(
      all.planes, all.in_h * all.in_w,
      [&](Index first, Index count) {
        HalvingPool some = all;
        some.planes = count;
        body(some, first * all.in_h * all.in_w, first * all.out_h * all.out_w);
      },
      kAlignment);
}

// The windows of an average pool, and the memory of what describes them.
struct Averages {
  PoolShape s;
  std::vector<Averaged> rows, columns;

  explicit Averages(const KernelRequest& request) : s(pool_shape(request)) {
    if (s.window.kernel == Plane{s.in_h, s.in_w} && s.out_plane() == 1 && s.window.pad_begin == Plane{0, 0}) {
      // A window over all of a plane needs no rows.
      s.window = {.kernel = {1, s.in_plane()}, .output = {1, 1}};
      s.in_w = s.in_plane();
      s.in_h = 1;
    }
    rows = averaged(request, s, 0);
    columns = averaged(request, s, 1);
  }
  AveragePool pool() const {
    return {.planes = s.planes,
            .in_h = s.in_h,
            .in_w = s.in_w,
            .out_h = s.out_h,
            .out_w = s.out_w,
            .rows = rows.data(),
            .columns = columns.data()};
  }
  std::size_t scratch_bytes() const { return float_bytes(s.in_w); }
};

std::unique_ptr<Kernel> make_average_pool(const KernelRequest& request) {
  Averages a(request);
  const std::size_t scratch = a.scratch_bytes();
  return lambda_kernel(
      [a = std::move(a), &all = loops()](const Arguments& args) {
        all.average_pool(a.pool(), args.in(0), args.floats(), args.out(0));
      },
      scratch);
}

std::unique_ptr<Kernel> make_average_pool_grad(const KernelRequest& request) {
  Averages a(request);
  const std::size_t scratch = a.scratch_bytes();
  return lambda_kernel(
      [a = std::move(a), &all = loops()](const Arguments& args) {
        all.average_pool_grad(a.pool(), args.in(0), args.floats(), args.out(0));
      },
      scratch);
}

std::unique_ptr<Kernel> make_blocked_average_pool(const KernelRequest& request) {
  return lambda_kernel([a = Averages(request), &all = loops()](const Arguments& args) {
    all.blocked_average_pool(a.pool(), args.in(0), args.out(0));
  });
}

std::unique_ptr<Kernel> make_blocked_average_pool_grad(const KernelRequest& request) {
  return lambda_kernel([a = Averages(request), &all = loops()](const Arguments& args) {
    all.blocked_average_pool_grad(a.pool(), args.in(0), args.out(0));
  });
}

std::unique_ptr<Kernel> make_max_pool(const KernelRequest& request) {
  const PoolShape s = pool_shape(request);
  if (!is_halving(s)) return eigen::kernels().make(request);
  return lambda_kernel([p = halving(s), &all = loops()](const Arguments& args) {
    for_planes(p, [&](const HalvingPool& some, Index in, Index out) {
      auto* window = args.out<std::uint8_t>(1);
      all.pool_halves(some, args.in(0) + in, args.out(0) + out, window == nullptr ? nullptr : window + out);
    });
  });
}

std::unique_ptr<Kernel> make_max_pool_grad(const KernelRequest& request) {
  const PoolShape s = pool_shape(request);
  if (!is_halving(s)) return eigen::kernels().make(request);
  return lambda_kernel([p = halving(s), &all = loops()](const Arguments& args) {
    for_planes(p, [&](const HalvingPool& some, Index in, Index out) {
      all.pool_halves_grad(some, args.in(0) + out, args.in<std::uint8_t>(1) + out, args.out(0) + in);
    });
  });
}

}  // namespace

void add_pooling(KernelTable& table) {
  table.add("MaxPool", {make_max_pool});
  table.add("MaxPoolGrad", {make_max_pool_grad});
  table.add("AveragePool", {make_average_pool});
  table.add("AveragePoolGrad", {make_average_pool_grad});
  table.add("GlobalAveragePool", {make_average_pool});
  table.add("GlobalAveragePoolGrad", {make_average_pool_grad});
  table.add_blocked("AveragePool", {make_blocked_average_pool});
  table.add_blocked("AveragePoolGrad", {make_blocked_average_pool_grad});
  table.add_blocked("GlobalAveragePool", {make_blocked_average_pool});
  table.add_blocked("GlobalAveragePoolGrad", {make_blocked_average_pool_grad});
}

}  // namespace rookery::simd
