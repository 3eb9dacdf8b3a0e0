#include "models/kernels/simd/blocked_convolution.hpp"

#include "models/graph/op_attributes.hpp"

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

// Where sources are neighbours lines are read whole.
void gather_taps(const Windows& windows, const float* weight, float* to) {
  const auto transpose = loops().transpose;
  if (windows.source_step == windows.taps)
    return transpose(kChannelBlock, kChannelBlock * windows.taps, weight, windows.result_step, to,
                     kChannelBlock);
  for (Index k = 0; k < kChannelBlock; ++k) {
    transpose(kChannelBlock, windows.taps, weight + k * windows.source_step, windows.result_step,
              to + k * windows.taps * kChannelBlock, kChannelBlock);
  }
}

void add_blocked_convolution(KernelTable& table) {
  table.add_blocked("Conv", {.make = make_convolution, .fuses = true});
  table.add_blocked("ConvGradInput", {make_convolution});
  table.add_blocked("ConvGradWeight", {make_gradient_of_weight});
}

}  // namespace rookery::simd
