#include "models/kernels/backend.hpp"

#include <dnnl.hpp>
#include <map>
#include <string>

#include "models/kernels/onednn/families.hpp"
#include "models/kernels/onednn/program.hpp"

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
  };
  const auto found = makers.find(request.op.type);
  if (found == makers.end()) return nullptr;
  onednn::apply_threads();
  try {
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
      .words = {"direct", "winograd"},
      .make = make,
      .prefers = [](const KernelRequest& request) { return make(request) != nullptr; },
      // Its post-ops turn a NaN into 0, some of them what is below 0 into -0.
      .fuses = [](const std::string&) { return false; }};
  return &backend;
}

}  // namespace rookery
