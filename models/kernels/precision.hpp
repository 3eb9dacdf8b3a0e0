// Mixed precision: convolutions and matrix products of numbers rounded to bf16, summed and handed on in f32,
// on masters in f32.
#pragma once

#include "models/kernels/choose.hpp"

namespace rookery {

// Does this processor, with this program, multiply bf16 by itself? (avx512_bf16)
bool has_bf16();

// The same choice with every Conv, Gemm and large MatMul, with recurrent layers, where oneDNN's back end has
// them, and with their gradients in bf16, except convolutions that Winograd's algorithm serves: these are
// faster in f32. ConfigError without has_bf16().
KernelChoice in_bf16(const Graph& graph, KernelChoice choice);

}  // namespace rookery
