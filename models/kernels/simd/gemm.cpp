// Gemm and its gradients; formulas as in eigen/gemm.cpp. For alpha = beta = 1.
#include <algorithm>

#include "models/graph/op_attributes.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"
#include "models/kernels/simd/loops/loops.hpp"
#include "models/kernels/simd/packed_product.hpp"
#include "models/kernels/threads.hpp"

namespace rookery::simd {
namespace {

bool is_plain(const GemmShape& s) {
  return s.alpha == 1 && (!s.has_c || s.beta == 1) && !s.trans_a;
}

// Up to here operands are multiplied where they lie, or copied as they are; beyond, in panels, but for a
// TransposedProduct. Up to here, too, and with that, our tiles beat oneDNN, which pays for layouts and
// packing, without having to be measured.
bool is_small(const GemmShape& s) {
  constexpr Index kMostProducts = 1 << 22;
  return s.m * s.n * s.k <= kMostProducts;
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
void multiply_rows(const Loops& loops, const Product& all) {
  constexpr Index kRowsAtATime = 16;  // so that B is not read for a few of them
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
      kRowsAtATime);
}

// C's panels on several threads: for few rows, so that each part of B is read by one of them.
void multiply_panels(const Loops& loops, const Product& all) {
  in_runs(panels(all.n), kPanel * all.m * all.k / kProductsATime, [&](Index first, Index count) {
    Product some = all;
    some.n = std::min(count * kPanel, all.n - first * kPanel);
    some.b += first * kPanel;
    some.c += first * kPanel;
    if (some.columns != nullptr) some.columns += first * kPanel;
    loops.multiply(some);
  });
}

// C^T = B^T A^T for few rows of A and B stored transposed: what is large is read where it lies, along its
// rows, and what is small is transposed.
class TransposedProduct {
 public:
  static bool fits(const GemmShape& s) {
    constexpr Index kMostDepth = 1024;
    return s.trans_b && s.m <= kFewRows && s.k <= kMostDepth && s.m * (s.k + s.n) < s.k * s.n;
  }
  explicit TransposedProduct(const GemmShape& s)
      : s_(s), row_((s.m + kImageBlock - 1) / kImageBlock * kImageBlock) {}

  std::size_t scratch_bytes() const { return float_bytes(s_.k * row_); }
  void run(const float* a, const float* b, const float* bias, bool relu, float* c, float* transposed) const {
    loops_.transpose_whole(s_.m, s_.k, a, s_.k, transposed, row_);
    in_runs(
        s_.n, s_.m * s_.k / kProductsATime,
        [&](Index first, Index count) {
          for_slices({first, first + count}, kColumns, [&](Index begin, Index end) {
            alignas(64) float columns[kColumns * kFewRows];  // of C, one after the other
            loops_.multiply({.m = end - begin,
                             .n = s_.m,
                             .k = s_.k,
                             .a = b + begin * s_.k,
                             .a_row = s_.k,
                             .a_column = 1,
                             .b = transposed,
                             .b_row = row_,
                             .c = columns,
                             .c_row = row_,
                             .rows = bias == nullptr ? nullptr : bias + begin,
                             .relu = relu});
            loops_.transpose(end - begin, s_.m, columns, row_, c + begin, s_.n);
          });
        },
        kColumns);
  }

 private:
  static constexpr Index kFewRows = 64;
  static constexpr Index kColumns = kImageBlock;  // so that of C whole lines are written
  const Loops& loops_ = loops();
  GemmShape s_;
  Index row_;
};

std::unique_ptr<Kernel> make_gemm(const KernelRequest& request) {
  const GemmShape s = gemm_shape(request);
  if (!is_plain(s)) return nullptr;
  const bool relu = has_activation(request.op);
  if (TransposedProduct::fits(s)) {
    const TransposedProduct product(s);
    return lambda_kernel(
        [product, relu](const Arguments& args) {
          product.run(args.in(0), args.in(1), args.in(2), relu, args.out(0), args.floats());
        },
        product.scratch_bytes());
  }
  if (!is_small(s)) {
    const PackedProduct product(s.m, s.n, s.k);
    return lambda_kernel(
        [s, relu, product](const Arguments& args) {
          const float* const stored = args.in(1);
          product.run(rows_of(args.in(0), s.k), s.trans_b ? rows_of(stored, s.k) : columns_of(stored, s.n),
                      args.in(2), relu, args.out(0), args.floats());
        },
        product.scratch_bytes());
  }
  const RightOperand b{s.k, s.n, s.trans_b, loops()};
  return lambda_kernel(
      [s, b, relu](const Arguments& args) {
        multiply_rows(b.loops, {.m = s.m,
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

// A panel of B stays in the cache as it lies while a few tiles read it.
bool is_read_few_times(const GemmShape& s, const RightOperand& b) {
  constexpr Index kFewRows = 64, kMostDepth = 512;
  return !b.copied() && s.m <= kFewRows && b.rows <= kMostDepth;
}

std::unique_ptr<Kernel> make_gemm_grad_input(const KernelRequest& request) {
  const GemmShape s = gemm_shape(request);
  if (!is_plain(s)) return nullptr;
  const RightOperand b{s.n, s.k, !s.trans_b, loops()};
  const bool stays = is_read_few_times(s, b);
  if (!is_small(s) && !stays) {
    const PackedProduct product(s.m, s.k, s.n);
    return lambda_kernel(
        [s, product](const Arguments& args) {
          const float* const stored = args.in(1);
          product.run(rows_of(args.in(0), s.n), s.trans_b ? columns_of(stored, s.k) : rows_of(stored, s.n),
                      nullptr, false, args.out(0), args.floats());
        },
        product.scratch_bytes());
  }
  return lambda_kernel(
      [s, b, stays, of_threads = stays ? multiply_panels : multiply_rows](const Arguments& args) {
        of_threads(b.loops, {.m = s.m,
                             .n = s.k,
                             .k = s.n,
                             .a = args.in(0),
                             .a_row = s.n,
                             .a_column = 1,
                             .b = b.prepare(args.in(1), args.floats()),
                             .b_row = b.padded(),
                             .c = args.out(0),
                             .c_row = s.k,
                             .b_ahead = stays ? kPanel : 0});
      },
      b.scratch_bytes());
}

std::unique_ptr<Kernel> make_gemm_grad_weight(const KernelRequest& request) {
  const GemmShape s = gemm_shape(request);
  if (!is_plain(s)) return nullptr;
  // dY^T A [n, k] where B is stored transposed, else A^T dY [k, n].
  if (!is_small(s) && request.op.outputs[0] != kNoValue) {
    const PackedProduct product = s.trans_b ? PackedProduct(s.n, s.k, s.m) : PackedProduct(s.k, s.n, s.m);
    return lambda_kernel(
        [s, product](const Arguments& args) {
          const Operand dy = columns_of(args.in(0), s.n), a = columns_of(args.in(1), s.k);
          product.run(s.trans_b ? dy : a, s.trans_b ? a : dy, nullptr, false, args.out(0), args.floats());
          if (args.out(1) != nullptr) loops().column_sums(s.m, s.n, args.in(0), args.out(1));
        },
        product.scratch_bytes());
  }
  const RightOperand right{s.m, s.trans_b ? s.k : s.n, false, loops()};
  const Index rows = s.trans_b ? s.n : s.k;
  return lambda_kernel(
      [s, right, rows](const Arguments& args) {
        const float* dy = args.in(0);
        const float* a = args.in(1);
        if (args.out(0) != nullptr) {
          multiply_rows(right.loops, {.m = rows,
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

bool is_preferred(const KernelRequest& request) {
  const GemmShape s = gemm_shape(request);
  return (is_small(s) || TransposedProduct::fits(s)) && make_gemm(request) != nullptr;
}

}  // namespace

void add_gemm(KernelTable& table) {
  table.add("Gemm", {.make = make_gemm, .prefers = is_preferred, .fuses = true});
  table.add("GemmGradInput", {make_gemm_grad_input});
  table.add("GemmGradWeight", {make_gemm_grad_weight});
}

}  // namespace rookery::simd
