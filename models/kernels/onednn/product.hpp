// Matrix products whose bits do not depend on the number of threads. Internal to this back end.
#pragma once

#include "models/kernels/onednn/program.hpp"

namespace rookery::onednn {

// Does this implementation, one that hands its work to oneDNN's gemm, share sums among threads? Others have
// threads share results alone.
bool shares_sums(const char* implementation);

std::size_t element_bytes(const dnnl::memory::desc& desc, std::int64_t elements);

// A matrix, or a batch of them, as products take it: itself, or a copy rounded to bf16 where the request asks
// for it.
dnnl::memory operand(Program& program, const KernelRequest& request, const dnnl::memory& matrix);

// Appends to = a b, plus `row` to each row where it is given, to the program; all are f32 or bf16 matrices,
// or batches of as many. Where the implementation shares sums, or may do so where they have many terms, the
// product is cut into pieces by its shape alone, each for one thread. False where oneDNN has only reference
// loops for it.
bool add_product(Program& program, const dnnl::memory& a, const dnnl::memory& b, const dnnl::memory& to,
                 const dnnl::memory& row = {});

// For an f32 matrix of which several products take parts: the matrix as add_product() reads it best, itself
// or one copy where each product would make its own. `terms`: the axis along which is summed; `sums`: how
// many sums of a product need an element.
dnnl::memory for_products(Program& program, const dnnl::memory& matrix, std::size_t terms, std::int64_t sums);

}  // namespace rookery::onednn
