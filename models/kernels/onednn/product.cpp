#include "models/kernels/onednn/product.hpp"

#include <algorithm>
#include <string_view>

namespace rookery::onednn {
namespace {

using dnnl::memory;

// Of a piece of a product, which is made of whole blocks of rows or columns.
constexpr std::int64_t kBlock = 32;
constexpr std::int64_t kLeastUnits = 128;
constexpr std::size_t kPieceBytes = 16 << 10;  // that oneDNN keeps for one after the first: measured
// Floats between rows that are copied, how much further apart they become, and the sums that pay for it: on
// an AMD Zen 3 with oneDNN 2.6 products of 1024 x 2048 x 256 then run at 70 to 79 GFLOP/s instead of 35.
constexpr std::int64_t kCollidingStride = 256;
constexpr std::int64_t kFurther = 16;
constexpr std::int64_t kLeastSums = 64;
constexpr std::int64_t kLeastOfPiece = 1 << 18;  // products
// Terms of a sum from which on oneDNN's own matmul for AVX-512 may share them among threads where they lie in
// rows of the left matrix; in batches it then makes wrong numbers (2.6.3; never with fewer, in 336 shapes,
// nor where they lie side by side, in 144).
constexpr std::int64_t kLeastSharedTerms = 2048;

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

memory::dims strides_of(const memory::desc& desc) {
  const auto& strides = desc.data.format_desc.blocking.strides;
  return {strides, strides + desc.data.ndims};
}

// Units first ... first + count - 1 along an axis: rows, columns, or matrices of a batch.
memory part_of(Program& program, const memory& whole, std::size_t axis, std::int64_t first,
               std::int64_t count) {
  const memory::desc desc = whole.get_desc();
  const memory::dims strides = strides_of(desc);
  memory::dims dims = desc.dims();
  dims[axis] = count;
  return program.part_of(whole, {dims, desc.data_type(), strides},
                         element_bytes(desc, first * strides[axis]));
}

// Where oneDNN's gemm takes the terms of its sums from rows that lie a power of two apart, most of them share
// a few sets of the cache: such an operand is copied to rows a little further apart, unless few sums need it.
memory spread_rows(Program& program, const memory& whole, std::size_t terms, std::int64_t sums) {
  const memory::desc desc = whole.get_desc();
  const std::int64_t stride = desc.data.format_desc.blocking.strides[terms];
  if (stride % kCollidingStride != 0 || sums < kLeastSums) return whole;
  memory::dims strides{1, 1};
  strides[terms] = stride + kFurther;
  return program.converted(whole, {desc.dims(), desc.data_type(), strides});
}

std::int64_t elements(const memory& of) {
  std::int64_t product = 1;
  for (const memory::dim dim : of.get_desc().dims()) product *= dim;
  return product;
}

bool may_share_terms(const dnnl::matmul::primitive_desc& descriptor, const memory& left) {
  const memory::desc desc = left.get_desc();
  return std::string_view(descriptor.impl_info_str()).starts_with("brg:") &&
         desc.dims().back() >= kLeastSharedTerms &&
         desc.data.format_desc.blocking.strides[desc.data.ndims - 1] != 1;
}

// Of a batch some matrices; otherwise some of the rows or columns, of which there are more: oneDNN copies the
// other operand for every piece.
void add_pieces(Program& program, Operands x, bool is_of_gemm) {
  const memory::dims sizes = x.to.get_desc().dims();
  const bool is_batch = sizes.size() > 2;
  const bool by_columns = !is_batch && sizes[1] > sizes[0];
  const std::int64_t units = by_columns ? sizes[1] : sizes[0];
  const std::int64_t block = is_batch ? 1 : kBlock;
  const std::int64_t products = elements(x.to) * x.a.get_desc().dims().back();
  const std::int64_t blocks = (units + block - 1) / block;
  const std::int64_t most = is_batch ? kMostPieces : std::max<std::int64_t>(units / kLeastUnits, 1);
  const std::int64_t pieces =
      std::min({std::max<std::int64_t>(products / kLeastOfPiece, 1), kMostPieces, most, blocks});
  if (!is_batch && is_of_gemm) {
    x.a = spread_rows(program, x.a, 1, sizes[1]);
    x.b = spread_rows(program, x.b, 0, sizes[0]);
  }
  const OneThread one;
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::int64_t first = i * blocks / pieces * block;
    const std::int64_t count = std::min((i + 1) * blocks / pieces * block, units) - first;
    const auto part = [&](const memory& whole, std::size_t axis) {
      return part_of(program, whole, axis, first, count);
    };
    Operands piece = x;
    piece.to = part(x.to, by_columns ? 1 : 0);
    if (!by_columns) piece.a = part(x.a, 0);
    if (is_batch) piece.b = part(x.b, 0);
    if (by_columns) piece.b = part(x.b, 1);
    if (by_columns && x.row) piece.row = part(x.row, 1);
    program.begin_piece();
    add(program, descriptor_of(piece), piece);
  }
  program.end_pieces();
  program.add_library_bytes(static_cast<std::size_t>(pieces - 1) * kPieceBytes);
}

}  // namespace

bool shares_sums(const char* implementation) {
  return std::string_view(implementation).find("gemm:") != std::string_view::npos;
}

std::size_t element_bytes(const memory::desc& desc, std::int64_t elements) {
  return static_cast<std::size_t>(elements) *
         (desc.data_type() == memory::data_type::bf16 ? 2 : sizeof(float));
}

memory operand(Program& program, const KernelRequest& request, const memory& matrix) {
  if (!request.asks_for("bf16")) return matrix;
  const memory::desc desc = matrix.get_desc();
  return program.converted(matrix, {desc.dims(), memory::data_type::bf16, strides_of(desc)});
}

memory for_products(Program& program, const memory& matrix, std::size_t terms, std::int64_t sums) {
  static const bool takes_gemm = [] {
    const memory plain({{64, 64}, memory::data_type::f32, Tag::ab}, cpu_engine(), DNNL_MEMORY_NONE);
    return shares_sums(descriptor_of({plain, plain, plain, {}}).impl_info_str());
  }();
  return takes_gemm ? spread_rows(program, matrix, terms, sums) : matrix;
}

bool add_product(Program& program, const memory& a, const memory& b, const memory& to, const memory& row) {
  const Operands all{a, b, to, row};
  const dnnl::matmul::primitive_desc descriptor = descriptor_of(all);
  if (!is_optimized(descriptor.impl_info_str())) return false;
  const bool is_of_gemm = shares_sums(descriptor.impl_info_str());
  if (is_of_gemm || may_share_terms(descriptor, a)) {
    add_pieces(program, all, is_of_gemm);
  } else {
    add(program, descriptor, all);
  }
  return true;
}

}  // namespace rookery::onednn
