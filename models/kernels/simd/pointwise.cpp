// The gradient of a convolution's weight whose windows are single places, on images in blocks: one matrix
// product over all places of the batch, of the output's channels by the input's, a slice of places at a time,
// so that what is multiplied stays in the cache. Both operands are multiplied where they lie, but for an
// input of which windows skip places: those that they see are copied side by side.
#include <algorithm>

#include "models/graph/op_attributes.hpp"
#include "models/kernels/simd/blocked_convolution.hpp"

namespace rookery::simd {
namespace {

// Some images' places: those from `place` on, `run` of each.
struct Slice {
  Index image, images, place, run;
};

class PointwiseGradient {
 public:
  explicit PointwiseGradient(const ConvShape& s)
      : s_(s),
        copies_(s.in_plane() != s.out_plane()),
        grid_(grid_of(s.out_channels, kChannelBlock, s.in_channels, s.batch * s.out_plane())),
        channels_(std::min(kMostChannels, panels(grid_.columns.largest()) * kPanel)) {}

  std::size_t scratch_bytes() const { return float_bytes(copies_ ? grid_.count() * floats() : 0); }

  void run(const float* x, const float* dy, float* dw, float* scratch) const {
    in_parts(grid_, [&](Index place, Range to, Range from) {
      for_places([&](const Slice& slice) {
        for_slices(from, channels_, [&](Index first, Index last) {
          const Input input = copies_ ? copied(x, slice, {first, last}, scratch + place * floats())
                                      : in_place(x, slice, {first, last}, from);
          add_slice(slice, {first, last}, to, input, dy, dw);
        });
      });
    });
  }

 private:
  // Of a slice of the input: together they take a part of a core's cache.
  static constexpr Index kMostPlaces = 512;
  static constexpr Index kMostChannels = 4 * kPanel;

  // Blocks of channels of a slice's images; floats from one block, image and slice to the next.
  struct Input {
    const float* blocks;
    Index block, image, slice;
  };

  Index floats() const { return std::min(kMostPlaces, s_.batch * s_.out_plane()) * channels_; }

  template <typename Body>
  void for_places(Body body) const {
    const Index plane = s_.out_plane();
    const Index images = even_slice(s_.batch, std::max<Index>(kMostPlaces / plane, 1));
    for_slices({0, s_.batch}, images, [&](Index image, Index end) {
      for_slices({0, plane}, even_slice(plane, kMostPlaces), [&](Index place, Index last) {
        body(Slice{image, end - image, place, last - place});
      });
    });
  }

  void add_slice(const Slice& slice, Range from, Range to, const Input& input, const float* dy,
                 float* dw) const {
    const bool is_first = slice.image == 0 && slice.place == 0;
    const Index plane = s_.out_plane();
    for_slices(to, kChannelBlock, [&](Index channel, Index channel_end) {
      for_slices(from, kPanel, [&](Index first, Index last) {
        loops_.multiply(
            {.m = kChannelBlock,
             .n = last - first,
             .k = slice.run,
             .a = dy + (slice.image * s_.out_channels + channel) * plane + slice.place * kChannelBlock,
             .a_row = 1,
             .a_column = kChannelBlock,
             .b = input.blocks + (first - from.begin) / kChannelBlock * input.block,
             .b_row = kChannelBlock,
             .c = dw + channel * s_.in_channels + first,
             .c_row = s_.in_channels,
             .accumulates = !is_first,
             .b_block = input.block,
             .chunks = slice.images,
             .a_chunk = s_.out_channels * plane,
             .b_chunk = input.image,
             .a_ahead = last == from.end ? plane * kChannelBlock : 0,
             .b_ahead = channel_end == to.end ? input.slice : 0,
             .c_ahead = kPanel});
      });
    });
  }

  // Floats before a place of an image, in its block of channels.
  Index before(Index image, Index channel, Index place) const {
    return (image * s_.in_channels + channel) * s_.in_plane() + place * kChannelBlock;
  }

  // `all`: the channels of which these are a slice.
  Input in_place(const float* x, const Slice& slice, Range channels, Range all) const {
    const Index here = before(slice.image, channels.begin, slice.place);
    const Index end = slice.place + slice.run;
    Index next = before(slice.image, channels.end, slice.place);
    if (channels.end == all.end)
      next = end < s_.in_plane() ? before(slice.image, all.begin, end)
                                 : before(slice.image + slice.images, all.begin, 0);
    return {x + here, s_.in_plane() * kChannelBlock, s_.in_channels * s_.in_plane(), next - here};
  }

  Input copied(const float* x, const Slice& slice, Range channels, float* to) const {
    const Index of_image = slice.run * kChannelBlock, of_block = slice.images * of_image;
    float* next = to;
    for_slices(channels, kChannelBlock, [&](Index channel, Index) {
      for (Index image = slice.image; image < slice.image + slice.images; ++image, next += of_image)
        copy_seen(x + before(image, channel, 0), slice, next);
    });
    return {to, of_block, of_image, 0};
  }

  // The places of a block of the input that the windows at a slice's places of the output see.
  void copy_seen(const float* from, const Slice& slice, float* to) const {
    const Index right = s_.window.stride[1] * kChannelBlock;
    const Index down = s_.window.stride[0] * s_.in_w * kChannelBlock;
    Index row = slice.place / s_.out_w, column = slice.place % s_.out_w;
    for (Index i = 0; i < slice.run; ++i, to += kChannelBlock) {
      const float* const seen = from + row * down + column * right;
      __builtin_prefetch(seen + down);  // no processor expects it
      std::copy_n(seen, kChannelBlock, to);
      if (++column < s_.out_w) continue;
      column = 0;
      ++row;
    }
  }

  const Loops& loops_ = loops();
  ConvShape s_;
  bool copies_;
  Grid grid_;       // of the output's channels by the input's
  Index channels_;  // of a slice
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
