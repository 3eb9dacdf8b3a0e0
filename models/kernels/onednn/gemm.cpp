// Gemm, MatMul and their gradients as matmul primitives on plain matrices; transposition is a matter of
// strides. Formulas as in eigen/gemm.cpp.

#include "models/kernels/onednn/product.hpp"
#include "models/kernels/shapes/shapes.hpp"
#include "models/kernels/simd/loops/loops.hpp"

namespace rookery::onednn {
namespace {

using dnnl::memory;

// An input of the op as an operand of rows by columns, stored as it is or transposed.
struct Operand {
  std::size_t input;
  std::int64_t rows, columns;
  bool transposed;
  std::int64_t batch = 1;  // matrices, one behind the other

  memory::desc desc() const {
    constexpr auto kF32 = memory::data_type::f32;
    if (batch > 1) return {{batch, rows, columns}, kF32, transposed ? Tag::acb : Tag::abc};
    return {{rows, columns}, kF32, transposed ? Tag::ba : Tag::ab};
  }
};

// output 0 = a b, plus input 2 as a row where `bias`; a and b rounded to bf16 where the request asks for it.
std::unique_ptr<Program> product(const KernelRequest& request, const Operand& a, const Operand& b,
                                 bool bias) {
  const memory::desc result = Operand{0, a.rows, b.columns, false, a.batch}.desc();
  const memory::desc row({1, b.columns}, memory::data_type::f32, memory::format_tag::ab);
  auto program = std::make_unique<Program>();
  const memory from_a = operand(*program, request, program->input(a.input, a.desc()));
  const memory from_b = operand(*program, request, program->input(b.input, b.desc()));
  const memory to = program->output(0, result);
  if (!add_product(*program, from_a, from_b, to, bias ? program->input(2, row) : memory())) return nullptr;
  return program;
}

// Whether every matrix of an operand is used once: oneDNN takes them as a batch.
bool is_plain(const MatMulShape& s) {
  return s.a_elements == s.batch * s.m * s.k && s.b_elements == s.batch * s.k * s.n;
}

bool is_plain(const GemmShape& s) {
  return s.alpha == 1 && (!s.has_c || s.beta == 1);
}

std::unique_ptr<Kernel> make_gemm(const KernelRequest& request) {
  const GemmShape s = gemm_shape(request);
  if (!is_plain(s)) return nullptr;
  return product(request, {0, s.m, s.k, s.trans_a}, {1, s.k, s.n, s.trans_b}, s.has_c);
}

std::unique_ptr<Kernel> make_gemm_grad_input(const KernelRequest& request) {
  const GemmShape s = gemm_shape(request);
  if (!is_plain(s)) return nullptr;
  if (s.trans_a) return product(request, {1, s.k, s.n, s.trans_b}, {0, s.n, s.m, true}, false);
  return product(request, {0, s.m, s.n, false}, {1, s.n, s.k, !s.trans_b}, false);
}

std::unique_ptr<Kernel> make_gemm_grad_weight(const KernelRequest& request) {
  const GemmShape s = gemm_shape(request);
  if (!is_plain(s) || request.op.outputs[0] == kNoValue) return nullptr;
  auto program = s.trans_b ? product(request, {0, s.n, s.m, true}, {1, s.m, s.k, s.trans_a}, false)
                           : product(request, {1, s.k, s.m, !s.trans_a}, {0, s.m, s.n, false}, false);
  if (program && s.has_c) {
    program->finally(
        [s](const Arguments& args) { simd::loops().column_sums(s.m, s.n, args.in(0), args.out(1)); });
  }
  return program;
}

std::unique_ptr<Kernel> make_matmul(const KernelRequest& request) {
  const MatMulShape s = matmul_shape(request);
  if (!is_plain(s)) return nullptr;
  return product(request, {0, s.m, s.k, false, s.batch}, {1, s.k, s.n, false, s.batch}, false);
}

std::unique_ptr<Kernel> make_matmul_grad_left(const KernelRequest& request) {
  const MatMulShape s = matmul_shape(request);
  if (!is_plain(s)) return nullptr;
  return product(request, {0, s.m, s.n, false, s.batch}, {1, s.n, s.k, true, s.batch}, false);
}

std::unique_ptr<Kernel> make_matmul_grad_right(const KernelRequest& request) {
  const MatMulShape s = matmul_shape(request);
  if (!is_plain(s)) return nullptr;
  return product(request, {1, s.k, s.m, true, s.batch}, {0, s.m, s.n, false, s.batch}, false);
}

}  // namespace

void add_gemm(KernelTable& table) {
  table.add("Gemm", {make_gemm});
  table.add("GemmGradInput", {make_gemm_grad_input});
  table.add("GemmGradWeight", {make_gemm_grad_weight});
  table.add("MatMul", {make_matmul});
  table.add("MatMulGradLeft", {make_matmul_grad_left});
  table.add("MatMulGradRight", {make_matmul_grad_right});
}

}  // namespace rookery::onednn
