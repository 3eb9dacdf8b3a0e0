// Softmax along the last axis, and its gradient.
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"
#include "models/kernels/simd/loops/loops.hpp"

namespace rookery::simd {
namespace {

std::unique_ptr<Kernel> make_softmax(const KernelRequest& request) {
  const AxisShape s = axis_shape(request);
  if (s.inner != 1) return nullptr;
  return lambda_kernel(
      [s, &all = loops()](const Arguments& args) { all.softmax(s.outer, s.size, args.in(0), args.out(0)); });
}

std::unique_ptr<Kernel> make_softmax_grad(const KernelRequest& request) {
  const AxisShape s = axis_shape(request);
  if (s.inner != 1) return nullptr;
  return lambda_kernel([s, &all = loops()](const Arguments& args) {
    all.softmax_grad(s.outer, s.size, args.in(0), args.in(1), args.out(0));
  });
}

}  // namespace

void add_softmax(KernelTable& table) {
  table.add("Softmax", {make_softmax});
  table.add("SoftmaxGrad", {make_softmax_grad});
}

}  // namespace rookery::simd
