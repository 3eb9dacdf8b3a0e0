#include "models/kernels/simd/blocked_convolution.hpp"

#include <algorithm>

#include "models/graph/op_attributes.hpp"

namespace rookery::simd {
namespace {

constexpr Index kLine = 16;  // floats

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

// The windows of each result, or of each source, are neighbours in memory: a row of so many lines.
void prefetch_windows(const Windows& windows, const float* weight, bool writes) {
  const Index row = std::max(windows.result_step, windows.source_step);
  for (Index i = 0; i < kChannelBlock; ++i) {
    for (Index at = 0; at < kChannelBlock * windows.taps; at += kLine) {
      const float* const line = weight + i * row + at;
      writes ? __builtin_prefetch(line, 1, 2) : __builtin_prefetch(line, 0, 2);
    }
  }
}

// Where sources are neighbours lines are read whole.
void gather_taps(const Windows& windows, const float* weight, float* to) {
  prefetch_windows(windows, weight + kChannelBlock * windows.source_step, false);
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
