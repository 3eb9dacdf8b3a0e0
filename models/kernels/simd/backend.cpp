#include "models/kernels/backend.hpp"
#include "models/graph/op_attributes.hpp"

namespace rookery {
namespace {

std::unique_ptr<Kernel> make(const KernelRequest& request) {
  return simd::kernels().make(request);
}

bool prefers(const KernelRequest& request) {
  const KernelRow* row = simd::kernels().find(request.op.type);
  if (row == nullptr) return false;
  return row->prefers == nullptr ? make(request) != nullptr : row->prefers(request);
}

bool fuses(const Op& op) {
  const KernelRow* row =
      is_blocked(op) ? simd::kernels().find_blocked(op.type) : simd::kernels().find(op.type);
  return row != nullptr && row->fuses;
}

}  // namespace

const Backend& simd_backend() {
  static const Backend backend{.name = "simd",
                               .words = {"blocked", "winograd", "places", "pointwise"},
                               .make = make,
                               .prefers = prefers,
                               .fuses = fuses};
  return backend;
}

}  // namespace rookery
