// Convolutions on images in blocks, by the algorithms that a request may name (KernelRequest::variant). All
// return nullptr for a convolution that they do not serve. Internal to this back end.
#pragma once

#include <cstdint>
#include <memory>

#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"
#include "models/kernels/simd/product_grid.hpp"

namespace rookery::simd {

// Conv, ConvGradInput or ConvGradWeight of 3 x 3 windows.
std::unique_ptr<Kernel> make_winograd(const KernelRequest& request);
// Conv, ConvGradInput or ConvGradWeight of maps that are hardly larger than their windows.
std::unique_ptr<Kernel> make_by_places(const KernelRequest& request);
// ConvGradWeight of 1 x 1 windows.
std::unique_ptr<Kernel> make_pointwise_gradient(const KernelRequest& request);

// A weight's windows as matrices see them: windows of so many taps, of neighbouring results and sources so
// far apart.
struct Windows {
  std::int64_t taps, result_step, source_step;
};
// Asks for the windows of 16 results by 16 sources that begin here, which need not exist: they lie in rows
// far apart, of which no processor expects the next.
void prefetch_windows(const Windows& windows, const float* weight, bool writes);
// to[source][tap][result] of the windows of 16 results by 16 sources that begin here. Asks for those of the
// next sources.
void gather_taps(const Windows& windows, const float* weight, float* to);

// The kernel of a class that computes a convolution of one kind, or the gradient of its input.
template <typename Convolution>
std::unique_ptr<Kernel> kernel_of(const Convolution& convolution) {
  return lambda_kernel(
      [convolution](const Arguments& args) {
        convolution.run(args.in(0), args.in(1), args.in(2), args.out(0), args.floats());
      },
      convolution.scratch_bytes());
}

// Of one that computes the gradient of the weight; that of the bias is the same for all.
template <typename Gradient>
std::unique_ptr<Kernel> kernel_of_gradient(const ConvShape& s) {
  const Gradient gradient(s);
  return lambda_kernel(
      [gradient, s](const Arguments& args) {
        gradient.run(args.in(1), args.in(0), args.out(0), args.floats());
        if (args.out(1) != nullptr)
          sum_blocks(s.batch, s.out_channels, s.out_plane(), args.in(0), args.out(1));
      },
      gradient.scratch_bytes());
}

}  // namespace rookery::simd
