#include "models/kernels/backend.hpp"

#include <dnnl.hpp>
#include <string>

#include "models/base/libraries/format.hpp"
#include "models/graph/op_attributes.hpp"
#include "models/kernels/onednn/program.hpp"
#include "models/kernels/precision.hpp"

namespace rookery {
namespace {

std::unique_ptr<Kernel> make(const KernelRequest& request) {
  if (is_blocked(request.op) && !request.op.type.starts_with("Conv")) return nullptr;
  const KernelRow* row = onednn::kernels().find(request.op.type);  // its convolutions serve blocks, too
  if (row == nullptr) return nullptr;
  if (request.asks_for("bf16") && !has_bf16()) return nullptr;
  onednn::apply_threads();
  try {
    return row->make(request);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return nullptr;
    throw;
  }
}

}  // namespace

const Backend* onednn_backend() {
  static const Backend backend{
      .name = "onednn",
      .words = {"bf16", "blocked", "direct"},
      .make = make,
      .prefers = [](const KernelRequest& request) { return make(request) != nullptr; },
      // Its post-ops turn a NaN into 0, some of them what is below 0 into -0.
      .fuses = [](const Op&) { return false; }};
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
