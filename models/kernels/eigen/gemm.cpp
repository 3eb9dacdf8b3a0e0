// Gemm and its gradients. With A' and B' the operands as they enter the product:
//   Y = alpha A'B' + beta C, dA' = alpha dY B'^T, dB' = alpha A'^T dY, dC = beta * column sums of dY.
#include <algorithm>

#include "models/kernels/backend.hpp"
#include "models/kernels/eigen/product.hpp"
#include "models/kernels/shapes/shapes.hpp"

namespace rookery::eigen {
namespace {

std::unique_ptr<Kernel> make_gemm(const KernelRequest& request) {
  return lambda_kernel([s = gemm_shape(request)](const Arguments& args) {
    float* y = args.out(0);
    const float* c = args.in(2);
    for (std::int64_t i = 0; i < s.m * s.n; ++i) y[i] = c == nullptr ? 0 : s.beta * c[i % s.n];
    const Matrix a = s.trans_a ? dense(args.in(0), s.k, s.m, true) : dense(args.in(0), s.m, s.k);
    const Matrix b = s.trans_b ? dense(args.in(1), s.n, s.k, true) : dense(args.in(1), s.k, s.n);
    multiply(a, b, s.alpha, true, y);
  });
}

std::unique_ptr<Kernel> make_gemm_grad_input(const KernelRequest& request) {
  return lambda_kernel([s = gemm_shape(request)](const Arguments& args) {
    const float* dy = args.in(0);
    const float* b = args.in(1);
    if (s.trans_a) {  // dA = alpha B' dY^T
      multiply(s.trans_b ? dense(b, s.n, s.k, true) : dense(b, s.k, s.n), dense(dy, s.m, s.n, true), s.alpha,
               false, args.out(0));
    } else {  // dA = alpha dY B'^T
      multiply(dense(dy, s.m, s.n), s.trans_b ? dense(b, s.n, s.k) : dense(b, s.k, s.n, true), s.alpha, false,
               args.out(0));
    }
  });
}

std::unique_ptr<Kernel> make_gemm_grad_weight(const KernelRequest& request) {
  return lambda_kernel([s = gemm_shape(request)](const Arguments& args) {
    const float* dy = args.in(0);
    const float* a = args.in(1);
    if (float* db = args.out(0)) {
      if (s.trans_b) {  // dB = alpha dY^T A'
        multiply(dense(dy, s.m, s.n, true), s.trans_a ? dense(a, s.k, s.m, true) : dense(a, s.m, s.k),
                 s.alpha, false, db);
      } else {  // dB = alpha A'^T dY
        multiply(s.trans_a ? dense(a, s.k, s.m) : dense(a, s.m, s.k, true), dense(dy, s.m, s.n), s.alpha,
                 false, db);
      }
    }
    if (float* dc = args.out(1)) {
      std::fill_n(dc, s.n, 0.0F);
      for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t j = 0; j < s.n; ++j) dc[j] += dy[i * s.n + j];
      }
      for (std::int64_t j = 0; j < s.n; ++j) dc[j] *= s.beta;
    }
  });
}

}  // namespace

void add_gemm(KernelTable& table) {
  table.add("Gemm", {make_gemm});
  table.add("GemmGradInput", {make_gemm_grad_input});
  table.add("GemmGradWeight", {make_gemm_grad_weight});
}

}  // namespace rookery::eigen
