// Mixed precision: convolutions and matrix products of numbers rounded to bf16, summed and handed on in f32,
// on masters in f32.
#pragma once

#include "models/kernels/kernel.hpp"

namespace rookery {

// Does this processor, with this program, multiply bf16 by itself? (avx512_bf16)
bool has_bf16();

// The same choice with every Conv and Gemm, and their gradients, in bf16. ConfigError without has_bf16().
KernelChoice in_bf16(const Graph& graph, KernelChoice choice);

}  // namespace rookery
