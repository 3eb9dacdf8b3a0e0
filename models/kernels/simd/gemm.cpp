// Gemm and its gradients; formulas as in eigen/gemm.cpp. For alpha = beta = 1.
#include "models/graph/op_attributes.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"
#include "models/kernels/simd/loops/loops.hpp"
#include "models/kernels/threads.hpp"

namespace rookery::simd {
namespace {

bool is_plain(const GemmShape& s) {
  return s.alpha == 1 && (!s.has_c || s.beta == 1) && !s.trans_a;
}

// The right operand, rows by columns, where the loops can read it: as it is when its rows are whole
// vectors, else copied into scratch.
struct RightOperand {
  Index rows, columns;
  bool transposed;  // as stored
  const Loops& loops;

  Index padded() const { return (columns + loops.lanes - 1) / loops.lanes * loops.lanes; }
  bool copied() const { return transposed || columns != padded(); }
  std::size_t scratch_bytes() const {
    return copied() ? static_cast<std::size_t>(rows * padded()) * sizeof(float) : 0;
  }
  const float* prepare(const float* stored, float* scratch) const {
    if (!copied()) return stored;
    if (transposed) {
      loops.transpose_whole(columns, rows, stored, rows, scratch, padded());
    } else {
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < padded(); ++j)
          scratch[i * padded() + j] = j < columns ? stored[i * columns + j] : 0;
      }
    }
    return scratch;
  }
};

// C's rows on several threads; each element is one sum, whatever rows are done with it.
void multiply(const Loops& loops, const Product& all) {
  constexpr Index kRows = 16;           // at a time, so that B is not read for a few of them
  constexpr Index kProductsATime = 16;  // of an operation in this arithmetic
  in_runs(
      all.m, all.n * all.k / kProductsATime,
      [&](Index first, Index count) {
        Product some = all;
        some.m = count;
        some.a += first * all.a_row;
        some.c += first * all.c_row;
        if (some.rows != nullptr) some.rows += first;
        loops.multiply(some);
      },
      kRows);
}

std::unique_ptr<Kernel> make_gemm(const KernelRequest& request) {
  const GemmShape s = gemm_shape(request);
  if (!is_plain(s)) return nullptr;
  const RightOperand b{s.k, s.n, s.trans_b, loops()};
  return lambda_kernel(
      [s, b, relu = has_activation(request.op)](const Arguments& args) {
        multiply(b.loops, {.m = s.m,
                           .n = s.n,
                           .k = s.k,
                           .a = args.in(0),
                           .a_row = s.k,
                           .a_column = 1,
                           .b = b.prepare(args.in(1), args.floats()),
                           .b_row = b.padded(),
                           .c = args.out(0),
                           .c_row = s.n,
                           .columns = args.in(2),
                           .relu = relu});
      },
      b.scratch_bytes());
}

std::unique_ptr<Kernel> make_gemm_grad_input(const KernelRequest& request) {
  const GemmShape s = gemm_shape(request);
  if (!is_plain(s)) return nullptr;
  const RightOperand b{s.n, s.k, !s.trans_b, loops()};
  return lambda_kernel(
      [s, b](const Arguments& args) {
        multiply(b.loops, {.m = s.m,
                           .n = s.k,
                           .k = s.n,
                           .a = args.in(0),
                           .a_row = s.n,
                           .a_column = 1,
                           .b = b.prepare(args.in(1), args.floats()),
                           .b_row = b.padded(),
                           .c = args.out(0),
                           .c_row = s.k});
      },
      b.scratch_bytes());
}

std::unique_ptr<Kernel> make_gemm_grad_weight(const KernelRequest& request) {
  const GemmShape s = gemm_shape(request);
  if (!is_plain(s)) return nullptr;
  // dB^T A' [n, k] where B is stored transposed, else A'^T dY [k, n].
  const RightOperand right{s.m, s.trans_b ? s.k : s.n, false, loops()};
  const Index rows = s.trans_b ? s.n : s.k;
  return lambda_kernel(
      [s, right, rows](const Arguments& args) {
        const float* dy = args.in(0);
        const float* a = args.in(1);
        if (args.out(0) != nullptr) {
          multiply(right.loops, {.m = rows,
                                 .n = right.columns,
                                 .k = s.m,
                                 .a = s.trans_b ? dy : a,
                                 .a_row = 1,
                                 .a_column = rows,
                                 .b = right.prepare(s.trans_b ? a : dy, args.floats()),
                                 .b_row = right.padded(),
                                 .c = args.out(0),
                                 .c_row = right.columns});
        }
        if (args.out(1) != nullptr) right.loops.column_sums(s.m, s.n, dy, args.out(1));
      },
      right.scratch_bytes());
}

// Up to here our tiles beat oneDNN, which pays for layouts and packing: measured in bench/kernel_times.
bool is_small_gemm(const KernelRequest& request) {
  constexpr std::int64_t kMostProducts = 1 << 22;
  const GemmShape s = gemm_shape(request);
  return s.m * s.n * s.k <= kMostProducts && make_gemm(request) != nullptr;
}

}  // namespace

void add_gemm(KernelTable& table) {
  table.add("Gemm", {.make = make_gemm, .prefers = is_small_gemm, .fuses = true});
  table.add("GemmGradInput", {make_gemm_grad_input});
  table.add("GemmGradWeight", {make_gemm_grad_weight});
}

}  // namespace rookery::simd
