#include "models/kernels/simd/blocked_convolution.hpp"

#include "models/kernels/backend.hpp"

namespace rookery::simd {
namespace {

std::unique_ptr<Kernel> make_convolution(const KernelRequest& request) {
  if (request.asks_for("winograd")) return make_winograd(request);
  return request.asks_for("places") ? make_by_places(request) : nullptr;
}

std::unique_ptr<Kernel> make_gradient_of_weight(const KernelRequest& request) {
  // Of a weight that is not trained only the bias has a gradient.
  if (request.op.outputs[0] == kNoValue) return nullptr;
  return request.asks_for("pointwise") ? make_pointwise_gradient(request) : make_convolution(request);
}

}  // namespace

void add_blocked_convolution(KernelTable& table) {
  table.add_blocked("Conv", {.make = make_convolution, .fuses = true});
  table.add_blocked("ConvGradInput", {make_convolution});
  table.add_blocked("ConvGradWeight", {make_gradient_of_weight});
}

}  // namespace rookery::simd
