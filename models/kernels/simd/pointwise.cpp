// The gradient of a convolution's weight whose windows are single places, on images in blocks: one matrix
// product over all places of the batch, of the output's channels by the input's. The output's gradient is
// multiplied where it lies; of the input the places that windows see are copied side by side, a slice at a
// time, so that what is multiplied stays in the cache.
#include <algorithm>

#include "models/graph/op_attributes.hpp"
#include "models/kernels/simd/blocked_convolution.hpp"

namespace rookery::simd {
namespace {

class PointwiseGradient {
 public:
  explicit PointwiseGradient(const ConvShape& s)
      : s_(s),
        grid_(grid_of(s.out_channels, kChannelBlock, s.in_channels, s.batch * s.out_plane())),
        places_(std::min(kMostPlaces, s.batch * s.out_plane())),
        channels_(std::min(kMostChannels, panels(grid_.columns.largest()) * kPanel)) {}

  std::size_t scratch_bytes() const { return float_bytes(grid_.count() * floats()); }

  void run(const float* x, const float* dy, float* dw, float* scratch) const {
    in_parts(grid_, [&](Index place, Range to, Range from) {
      for_slices({0, s_.batch * s_.out_plane()}, places_, [&](Index begin, Index end) {
        for_slices(from, channels_, [&](Index first, Index last) {
          add_slice({begin, end}, {first, last}, to, {x, dy, dw, scratch + place * floats()});
        });
      });
    });
  }

 private:
  // Of a slice of the input: together they take a part of a core's cache.
  static constexpr Index kMostPlaces = 512;
  static constexpr Index kMostChannels = 4 * kPanel;

  struct Operands {
    const float *x, *dy;
    float *dw, *panels;
  };

  Index floats() const { return places_ * channels_; }

  // body(image, first place, count, the same counted from the slice's first) for runs within an image.
  template <typename Body>
  void for_runs(Range places, Body body) const {
    const Index plane = s_.out_plane();
    for (Index place = places.begin; place < places.end;) {
      const Index count = std::min(places.end - place, plane - place % plane);
      body(place / plane, place % plane, count, place - places.begin);
      place += count;
    }
  }

  void add_slice(Range places, Range from, Range to, const Operands& at) const {
    copy_input(places, from, at);
    for (Index channel = to.begin; channel < to.end; channel += kChannelBlock) {
      for_slices(from, kPanel, [&](Index first, Index last) {
        for_runs(places, [&](Index image, Index place, Index count, Index row) {
          loops_.multiply(
              {.m = kChannelBlock,
               .n = last - first,
               .k = count,
               .a = at.dy + (image * s_.out_channels + channel) * s_.out_plane() + place * kChannelBlock,
               .a_row = 1,
               .a_column = kChannelBlock,
               .b = panel(at, first - from.begin) + row * kPanel,
               .b_row = kPanel,
               .c = at.dw + channel * s_.in_channels + first,
               .c_row = s_.in_channels,
               .accumulates = places.begin + row > 0});
        });
      });
    }
  }

  float* panel(const Operands& at, Index channel) const { return at.panels + channel * places_; }

  void copy_input(Range places, Range from, const Operands& at) const {
    for (Index channel = from.begin; channel < from.end; channel += kChannelBlock) {
      const Index column = channel - from.begin;
      float* to = panel(at, column / kPanel * kPanel) + column % kPanel;
      for_runs(places, [&](Index image, Index place, Index count, Index) {
        const float* const block = at.x + (image * s_.in_channels + channel) * s_.in_plane();
        for (Index i = place; i < place + count; ++i, to += kPanel)
          std::copy_n(block + seen_by(i) * kChannelBlock, kChannelBlock, to);
      });
    }
  }

  // The place of the input that the window at a place of the output sees.
  Index seen_by(Index place) const {
    if (s_.in_plane() == s_.out_plane()) return place;
    const Plane& stride = s_.window.stride;
    return place / s_.out_w * stride[0] * s_.in_w + place % s_.out_w * stride[1];
  }

  const Loops& loops_ = loops();
  ConvShape s_;
  Grid grid_;                // of the output's channels by the input's
  Index places_, channels_;  // of a slice
};

// Does each window see one place of the input, none of the padding?
bool has_single_places(const ConvShape& s) {
  const Window& w = s.window;
  const bool is_inside = w.pad_begin == Plane{0, 0} && (s.out_h - 1) * w.stride[0] < s.in_h &&
                         (s.out_w - 1) * w.stride[1] < s.in_w;
  return w.kernel == Plane{1, 1} && is_inside && s.groups == 1 && s.in_channels % kChannelBlock == 0 &&
         s.out_channels % kChannelBlock == 0;
}

}  // namespace

std::unique_ptr<Kernel> make_pointwise_gradient(const KernelRequest& request) {
  const ConvShape s = conv_shape(request);
  if (!has_single_places(s)) return nullptr;
  return kernel_of_gradient<PointwiseGradient>(s);
}

}  // namespace rookery::simd
