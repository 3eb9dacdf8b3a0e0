// Softmax along the last axis, and its gradient.
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"
#include "models/kernels/simd/loops/loops.hpp"
#include "models/kernels/threads.hpp"

namespace rookery::simd {
namespace {

std::unique_ptr<Kernel> make_softmax(const KernelRequest& request) {
  const AxisShape s = axis_shape(request);
  if (s.inner != 1 || s.size == 0) return nullptr;
  return lambda_kernel([s, &all = loops()](const Arguments& args) {
    in_runs(s.outer, s.size, [&](Index row, Index rows) {
      all.softmax(rows, s.size, args.in(0) + row * s.size, args.out(0) + row * s.size);
    });
  });
}

std::unique_ptr<Kernel> make_softmax_grad(const KernelRequest& request) {
  const AxisShape s = axis_shape(request);
  if (s.inner != 1 || s.size == 0) return nullptr;
  return lambda_kernel([s, &all = loops()](const Arguments& args) {
    in_runs(s.outer, s.size, [&](Index row, Index rows) {
      const Index at = row * s.size;
      all.softmax_grad(rows, s.size, args.in(0) + at, args.in(1) + at, args.out(0) + at);
    });
  });
}

}  // namespace

void add_softmax(KernelTable& table) {
  table.add("Softmax", {make_softmax});
  table.add("SoftmaxGrad", {make_softmax_grad});
}

}  // namespace rookery::simd
