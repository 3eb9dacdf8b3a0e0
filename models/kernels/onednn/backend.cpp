#include "models/kernels/backend.hpp"

#include <fmt/format.h>

#include <dnnl.hpp>
#include <map>
#include <string>

#include "models/graph/op_attributes.hpp"
#include "models/kernels/onednn/families.hpp"
#include "models/kernels/onednn/program.hpp"
#include "models/kernels/precision.hpp"

namespace rookery {

namespace {

using Make = std::unique_ptr<Kernel> (*)(const KernelRequest&);

std::unique_ptr<Kernel> make(const KernelRequest& request) {
  static const std::map<std::string, Make> makers{
      {"Conv", onednn::make_conv},
      {"ConvGradInput", onednn::make_conv_grad_input},
      {"ConvGradWeight", onednn::make_conv_grad_weight},
      {"ConvTranspose", onednn::make_conv_grad_input},
      {"ConvTransposeGradInput", onednn::make_conv},
      {"ConvTransposeGradWeight", onednn::make_conv_grad_weight},
      {"Gemm", onednn::make_gemm},
      {"GemmGradInput", onednn::make_gemm_grad_input},
      {"GemmGradWeight", onednn::make_gemm_grad_weight},
      {"MatMul", onednn::make_matmul},
      {"MatMulGradLeft", onednn::make_matmul_grad_left},
      {"MatMulGradRight", onednn::make_matmul_grad_right},
      {"LSTM", onednn::make_recurrent},
      {"LSTMGradGates", onednn::make_recurrent_grad_gates},
      {"LSTMGradWeights", onednn::make_recurrent_grad_weights},
      {"GRU", onednn::make_recurrent},
      {"GRUGradGates", onednn::make_recurrent_grad_gates},
      {"GRUGradWeights", onednn::make_recurrent_grad_weights},
      {"RNN", onednn::make_recurrent},
      {"RNNGradGates", onednn::make_recurrent_grad_gates},
      {"RNNGradWeights", onednn::make_recurrent_grad_weights},
  };
  if (is_blocked(request.op) && !request.op.type.starts_with("Conv")) return nullptr;
  const auto found = makers.find(request.op.type);
  if (found == makers.end()) return nullptr;
  if (request.asks_for("bf16") && !has_bf16()) return nullptr;
  onednn::apply_threads();
  try {
    if (request.asks_for("places")) return onednn::make_place_convolution(request);
    return found->second(request);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return nullptr;
    throw;
  }
}

}  // namespace

const Backend* onednn_backend() {
  static const Backend backend{
      .name = "onednn",
      .words = {"bf16", "blocked", "direct", "places", "winograd"},
      .make = make,
      .prefers = [](const KernelRequest& request) { return make(request) != nullptr; },
      // Its post-ops turn a NaN into 0, some of them what is below 0 into -0.
      .fuses = [](const std::string&) { return false; }};
  return &backend;
}

// Elsewhere oneDNN would imitate it, slowly.
bool has_bf16() {
  const auto bf16 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bf16) == bf16;
}

std::string onednn_version() {
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version.major, version.minor, version.patch);
}

}  // namespace rookery
