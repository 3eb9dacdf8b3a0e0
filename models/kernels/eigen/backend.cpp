#include "models/kernels/backend.hpp"
#include "models/graph/op_attributes.hpp"
#include "models/kernels/eigen/blocked.hpp"

namespace rookery {
namespace {

std::unique_ptr<Kernel> make(const KernelRequest& request) {
  if (is_blocked(request.op)) return eigen::make_by_plain(request, make);
  return eigen::kernels().make(request);
}

}  // namespace

const Backend& eigen_backend() {
  // It has kernels of every op, also of views: their gradients may need one.
  static const Backend backend{.name = "eigen",
                               .words = {"blocked"},
                               .make = make,
                               .prefers = [](const KernelRequest&) { return true; },
                               .fuses = [](const Op&) { return false; }};
  return backend;
}

}  // namespace rookery
