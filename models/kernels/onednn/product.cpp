#include "models/kernels/onednn/product.hpp"

#include <algorithm>
#include <string_view>

namespace rookery::onednn {
namespace {

using dnnl::memory;

// Of a piece of a product, which is made of whole blocks of rows.
constexpr std::int64_t kRows = 32;
constexpr std::int64_t kLeastOfRows = 1 << 18;  // products

struct Operands {
  memory a, b, to, row;
};

dnnl::matmul::primitive_desc descriptor_of(const Operands& x) {
  const dnnl::matmul::desc description =
      x.row ? dnnl::matmul::desc(x.a.get_desc(), x.b.get_desc(), x.row.get_desc(), x.to.get_desc())
            : dnnl::matmul::desc(x.a.get_desc(), x.b.get_desc(), x.to.get_desc());
  return {description, user_scratchpad(), cpu_engine()};
}

void add(Program& program, const dnnl::matmul::primitive_desc& descriptor, const Operands& x) {
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, x.a}, {DNNL_ARG_WEIGHTS, x.b}, {DNNL_ARG_DST, x.to}};
  if (x.row) arguments.emplace(DNNL_ARG_BIAS, x.row);
  program.add<dnnl::matmul>(descriptor, std::move(arguments));
}

// Units first ... first + count - 1 along the first axis, which are rows, or matrices of a batch.
memory part_of(Program& program, const memory& whole, std::int64_t first, std::int64_t count) {
  const memory::desc desc = whole.get_desc();
  const memory::dims strides(desc.data.format_desc.blocking.strides,
                             desc.data.format_desc.blocking.strides + desc.data.ndims);
  memory::dims dims = desc.dims();
  dims[0] = count;
  return program.part_of(whole, {dims, desc.data_type(), strides},
                         static_cast<std::size_t>(first * strides[0]) * sizeof(float));
}

std::int64_t elements(const memory& of) {
  std::int64_t product = 1;
  for (const memory::dim dim : of.get_desc().dims()) product *= dim;
  return product;
}

void add_pieces(Program& program, const Operands& x) {
  const bool is_batch = x.a.get_desc().dims().size() > 2;
  const std::int64_t units = x.to.get_desc().dims()[0];
  const std::int64_t block = is_batch ? 1 : kRows;
  const std::int64_t products = elements(x.to) * x.a.get_desc().dims().back();
  const std::int64_t blocks = (units + block - 1) / block;
  const std::int64_t pieces =
      std::min(std::clamp<std::int64_t>(products / kLeastOfRows, 1, kMostPieces), blocks);
  const OneThread one;
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::int64_t first = i * blocks / pieces * block;
    const std::int64_t count = std::min((i + 1) * blocks / pieces * block, units) - first;
    const Operands piece{part_of(program, x.a, first, count),
                         is_batch ? part_of(program, x.b, first, count) : x.b,
                         part_of(program, x.to, first, count), x.row};
    program.begin_piece();
    add(program, descriptor_of(piece), piece);
  }
  program.end_pieces();
}

}  // namespace

bool shares_sums(const char* implementation) {
  return std::string_view(implementation).find("gemm:") != std::string_view::npos;
}

bool add_product(Program& program, const memory& a, const memory& b, const memory& to, const memory& row) {
  const Operands all{a, b, to, row};
  const dnnl::matmul::primitive_desc descriptor = descriptor_of(all);
  if (!is_optimized(descriptor.impl_info_str())) return false;
  if (shares_sums(descriptor.impl_info_str())) {
    add_pieces(program, all);
  } else {
    add(program, descriptor, all);
  }
  return true;
}

}  // namespace rookery::onednn
