// Conv and its gradients on images in blocks, where maps are so small that much of every window lies in the
// padding: a matrix product for each pair of an input place and an output place that a tap connects, over the
// batch and the channels, so that no product is made with zeros.
#include <algorithm>
#include <vector>

#include "models/graph/op_attributes.hpp"
#include "models/kernels/simd/blocked_convolution.hpp"

namespace rookery::simd {
namespace {

constexpr Index kMostPlaces = 16;

// The tap that connects two places.
struct Pair {
  Index in, out, tap;
};

// By tap.
std::vector<Pair> connected_pairs(const ConvShape& s) {
  const Window& w = s.window;
  std::vector<Pair> pairs;
  for (Index tap = 0; tap < s.taps(); ++tap) {
    for (Index out = 0; out < s.out_plane(); ++out) {
      const Index row = out / s.out_w * w.stride[0] - w.pad_begin[0] + tap / w.kernel[1] * w.dilation[0];
      const Index column = out % s.out_w * w.stride[1] - w.pad_begin[1] + tap % w.kernel[1] * w.dilation[1];
      if (row < 0 || row >= s.in_h || column < 0 || column >= s.in_w) continue;
      pairs.push_back({row * s.in_w + column, out, tap});
    }
  }
  return pairs;
}

// Of the pairs those with each value of a member, of which there are `count`.
std::vector<std::vector<Pair>> grouped_by(const std::vector<Pair>& pairs, Index Pair::*member, Index count) {
  std::vector<std::vector<Pair>> groups(static_cast<std::size_t>(count));
  for (const Pair& pair : pairs) groups[static_cast<std::size_t>(pair.*member)].push_back(pair);
  return groups;
}

bool all_have_pairs(const std::vector<std::vector<Pair>>& groups) {
  return std::ranges::none_of(groups, &std::vector<Pair>::empty);
}

// Some channels of some images, as matrices [place][image][row] with `row` floats from one image to the next.
void gather(const float* images, Index all_channels, Index places, Range some, Range channels, Index row,
            float* matrices) {
  for (Index image = some.begin; image < some.end; ++image) {
    for (Index channel = channels.begin; channel < channels.end; channel += kChannelBlock) {
      const float* from = images + (image * all_channels + channel) * places;
      float* to = matrices + (image - some.begin) * row + channel - channels.begin;
      for (Index place = 0; place < places; ++place, from += kChannelBlock, to += some.size() * row)
        std::copy_n(from, kChannelBlock, to);
    }
  }
}

// Conv, and ConvGradInput, which is one with the channels of the weight exchanged.
class PlaceConvolution {
 public:
  PlaceConvolution(const ConvShape& s, bool of_input, bool relu)
      : taps_(s.taps()),
        from_places_(of_input ? s.out_plane() : s.in_plane()),
        to_places_(of_input ? s.in_plane() : s.out_plane()),
        depth_(of_input ? s.out_channels : s.in_channels),
        channels_(of_input ? s.in_channels : s.out_channels),
        windows_{s.taps(), of_input ? s.taps() : s.in_channels * s.taps(),
                 of_input ? s.in_channels * s.taps() : s.taps()},
        pairs_(grouped_by(connected_pairs(s), of_input ? &Pair::in : &Pair::out, to_places_)),
        from_(of_input ? &Pair::out : &Pair::in),
        relu_(relu),
        grid_(grid_of(s.batch, kRows, channels_, std::ssize(connected_pairs(s)) * depth_)) {}

  std::size_t scratch_bytes() const { return float_bytes(grid_.count() * floats()); }

  void run(const float* from, const float* weight, const float* bias, float* to, float* scratch) const {
    in_parts(grid_, [&](Index member, Range images, Range channels) {
      float* const matrices = scratch + member * floats();
      float* const weights = matrices + from_floats();
      float* const results = weights + weight_floats() + tap_floats();
      gather(from, depth_, from_places_, images, {0, depth_}, depth_, matrices);
      for_slices(channels, kPanel, [&](Index first, Index last) {
        gather_weight(weight, {first, last}, weights);
        for (Index out = 0; out < to_places_; ++out) {
          multiply(matrices, images.size(), weights, last - first, out,
                   bias == nullptr ? nullptr : bias + first, results);
          scatter(results, images, {first, last}, out, to);
        }
      });
    });
  }

 private:
  // Of a member's scratch memory.
  Index from_floats() const { return from_places_ * grid_.rows.largest() * depth_; }
  Index weight_floats() const { return taps_ * depth_ * kPanel; }
  Index tap_floats() const { return kChannelBlock * taps_ * kChannelBlock; }
  Index floats() const {
    return from_floats() + weight_floats() + tap_floats() + grid_.rows.largest() * kPanel;
  }

  // [tap][source][kPanel], by way of the taps of 16 windows and 16 sources, whose lines are read whole.
  void gather_weight(const float* weight, Range channels, float* weights) const {
    float* const taps = weights + weight_floats();
    for (Index channel = channels.begin; channel < channels.end; channel += kChannelBlock) {
      for (Index source = 0; source < depth_; source += kChannelBlock) {
        gather_taps(windows_, weight + channel * windows_.result_step + source * windows_.source_step, taps);
        for (Index k = 0; k < kChannelBlock; ++k) {
          for (Index tap = 0; tap < taps_; ++tap) {
            std::copy_n(taps + (k * taps_ + tap) * kChannelBlock, kChannelBlock,
                        weights + (tap * depth_ + source + k) * kPanel + channel - channels.begin);
          }
        }
      }
    }
  }

  void multiply(const float* matrices, Index images, const float* weights, Index columns, Index out,
                const float* bias, float* results) const {
    const std::vector<Pair>& pairs = pairs_[static_cast<std::size_t>(out)];
    for (const Pair& pair : pairs) {
      const bool is_first = &pair == &pairs.front();
      loops_.multiply({.m = images,
                       .n = columns,
                       .k = depth_,
                       .a = matrices + pair.*from_ * images * depth_,
                       .a_row = depth_,
                       .a_column = 1,
                       .b = weights + pair.tap * depth_ * kPanel,
                       .b_row = kPanel,
                       .c = results,
                       .c_row = kPanel,
                       .columns = is_first ? bias : nullptr,
                       .relu = relu_ && &pair == &pairs.back(),
                       .accumulates = !is_first});
    }
  }

  void scatter(const float* results, Range images, Range channels, Index place, float* to) const {
    for (Index image = images.begin; image < images.end; ++image) {
      for (Index channel = channels.begin; channel < channels.end; channel += kChannelBlock) {
        std::copy_n(results + (image - images.begin) * kPanel + channel - channels.begin, kChannelBlock,
                    to + (image * channels_ + channel) * to_places_ + place * kChannelBlock);
      }
    }
  }

  const Loops& loops_ = loops();
  Index taps_, from_places_, to_places_;
  Index depth_, channels_;  // of what is summed over, and of the result
  Windows windows_;
  std::vector<std::vector<Pair>> pairs_;  // by place of the result
  Index Pair::*from_;
  bool relu_;
  Grid grid_;  // of images by the result's channels
};

class PlaceGradient {
 public:
  explicit PlaceGradient(const ConvShape& s)
      : s_(s),
        pairs_(grouped_by(connected_pairs(s), &Pair::tap, s.taps())),
        grid_(grid_of(s.in_channels, kChannelBlock, s.out_channels,
                      std::ssize(connected_pairs(s)) * s.batch)) {}

  std::size_t scratch_bytes() const { return float_bytes(grid_.count() * floats()); }

  void run(const float* x, const float* dy, float* dw, float* scratch) const {
    in_parts(grid_, [&](Index member, Range from, Range to) {
      float* const matrices = scratch + member * floats();
      for_slices(to, kPanel, [&](Index first, Index last) {
        gather(dy, s_.out_channels, s_.out_plane(), {0, s_.batch}, {first, last}, kPanel, matrices);
        for_slices(from, kChannelBlock, [&](Index channel, Index) {
          float* const sums = matrices + dy_floats();
          multiply(x, channel, matrices, last - first, sums);
          scatter(sums, channel, {first, last}, dw);
        });
      });
    });
  }

 private:
  // Of a member's scratch memory.
  Index dy_floats() const { return s_.out_plane() * s_.batch * kPanel; }
  Index floats() const { return dy_floats() + kChannelBlock * s_.taps() * kPanel; }

  // sums[source][tap][kPanel] of a block of the input's channels.
  void multiply(const float* x, Index channel, const float* matrices, Index columns, float* sums) const {
    for (Index tap = 0; tap < s_.taps(); ++tap) {
      const std::vector<Pair>& pairs = pairs_[static_cast<std::size_t>(tap)];
      for (const Pair& pair : pairs) {
        loops_.multiply({.m = kChannelBlock,
                         .n = columns,
                         .k = s_.batch,
                         .a = x + channel * s_.in_plane() + pair.in * kChannelBlock,
                         .a_row = 1,
                         .a_column = s_.in_channels * s_.in_plane(),
                         .b = matrices + pair.out * s_.batch * kPanel,
                         .b_row = kPanel,
                         .c = sums + tap * kPanel,
                         .c_row = s_.taps() * kPanel,
                         .accumulates = &pair != &pairs.front()});
      }
    }
  }

  void scatter(const float* sums, Index from, Range channels, float* dw) const {
    for (Index to = channels.begin; to < channels.end; to += kChannelBlock) {
      loops_.transpose(kChannelBlock * s_.taps(), kChannelBlock, sums + to - channels.begin, kPanel,
                       dw + (to * s_.in_channels + from) * s_.taps(), s_.in_channels * s_.taps());
    }
  }

  const Loops& loops_ = loops();
  ConvShape s_;
  std::vector<std::vector<Pair>> pairs_;  // by tap
  Grid grid_;                             // of the input's channels by the output's
};

// Every place and every tap is in a pair, so that each result is written.
bool has_small_maps(const ConvShape& s) {
  if (s.in_channels % kChannelBlock != 0 || s.out_channels % kChannelBlock != 0 || s.groups != 1)
    return false;
  if (s.in_plane() > kMostPlaces || s.out_plane() > kMostPlaces) return false;
  const std::vector<Pair> pairs = connected_pairs(s);
  return all_have_pairs(grouped_by(pairs, &Pair::in, s.in_plane())) &&
         all_have_pairs(grouped_by(pairs, &Pair::out, s.out_plane())) &&
         all_have_pairs(grouped_by(pairs, &Pair::tap, s.taps()));
}

}  // namespace

std::unique_ptr<Kernel> make_by_places(const KernelRequest& request) {
  const ConvShape s = conv_shape(request);
  if (!has_small_maps(s)) return nullptr;
  const std::string& type = request.op.type;
  if (type == "ConvGradWeight") return kernel_of_gradient<PlaceGradient>(s);
  return kernel_of(PlaceConvolution(s, type == "ConvGradInput", has_activation(request.op)));
}

}  // namespace rookery::simd
