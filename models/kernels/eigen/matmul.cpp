// MatMul and its gradients: dA = dY B^T and dB = A^T dY, summed where an operand was repeated.
#include <algorithm>

#include "models/kernels/backend.hpp"
#include "models/kernels/eigen/product.hpp"
#include "models/kernels/shapes/shapes.hpp"

namespace rookery::eigen {
namespace {

std::unique_ptr<Kernel> make_matmul(const KernelRequest& request) {
  return lambda_kernel([s = matmul_shape(request)](const Arguments& args) {
    s.for_each([&](std::int64_t y, std::int64_t a, std::int64_t b) {
      multiply(dense(args.in(0) + a, s.m, s.k), dense(args.in(1) + b, s.k, s.n), 1, false, args.out(0) + y);
    });
  });
}

std::unique_ptr<Kernel> make_matmul_grad_left(const KernelRequest& request) {
  return lambda_kernel([s = matmul_shape(request)](const Arguments& args) {
    std::fill_n(args.out(0), s.a_elements, 0.0F);
    s.for_each([&](std::int64_t y, std::int64_t a, std::int64_t b) {
      multiply(dense(args.in(0) + y, s.m, s.n), dense(args.in(1) + b, s.k, s.n, true), 1, true,
               args.out(0) + a);
    });
  });
}

std::unique_ptr<Kernel> make_matmul_grad_right(const KernelRequest& request) {
  return lambda_kernel([s = matmul_shape(request)](const Arguments& args) {
    std::fill_n(args.out(0), s.b_elements, 0.0F);
    s.for_each([&](std::int64_t y, std::int64_t a, std::int64_t b) {
      multiply(dense(args.in(1) + a, s.m, s.k, true), dense(args.in(0) + y, s.m, s.n), 1, true,
               args.out(0) + b);
    });
  });
}

}  // namespace

void add_matmul(KernelTable& table) {
  table.add("MatMul", {make_matmul});
  table.add("MatMulGradLeft", {make_matmul_grad_left});
  table.add("MatMulGradRight", {make_matmul_grad_right});
}

}  // namespace rookery::eigen
