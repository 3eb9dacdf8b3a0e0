// Conv and its gradients for 3 x 3 windows on images in blocks, by Winograd's algorithm (loops/winograd.cpp):
// matrix products of tiles by channels, 36 of them or 9. Work goes in slices of channels and of tiles, so
// that what is transformed stays in the cache and scratch memory is bounded whatever the sizes. Where one
// slice of tiles is all, each thread takes slices of channels from end to end, with scratch memory of its
// own; otherwise threads share each step of a slice.
//
// Matrices are in panels of 32 columns; each matrix has a little room behind it, since matrices that are a
// power of two apart would share few places of the cache.
#include <algorithm>

#include "models/graph/op_attributes.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"
#include "models/kernels/simd/loops/loops.hpp"
#include "models/kernels/threads.hpp"

namespace rookery::simd {
namespace {

constexpr Index kTaps = 9;
constexpr Index kPanel = 2 * kChannelBlock;
// Sizes of a slice. Tiles are transformed again for every slice of channels, unless one slice of tiles is
// all.
constexpr Index kSliceFloats = 2 << 20;
constexpr Index kSmallSliceFloats = 128 << 10;

Index panels(Index channels) {
  return (channels + kPanel - 1) / kPanel;
}
Index apart(Index matrix) {
  return matrix + kChannelBlock;
}
// The place where a channel's column begins in panels of `rows` rows.
Index column(Index channel, Index rows) {
  return channel / kPanel * rows * kPanel + channel % kPanel;
}

// body(begin, end) for [0, n) in slices of `size`.
template <typename Body>
void for_slices(Index n, Index size, Body body) {
  for (Index begin = 0; begin < n; begin += size) body(begin, std::min(begin + size, n));
}
Index slices(Index n, Index size) {
  return (n + size - 1) / size;
}

// body(place, begin, end) for such slices, by `places` threads at most.
template <typename Body>
void for_slices_in_places(Index n, Index size, Index places, Body body) {
  if (places == 1) {
    for_slices(n, size, [&](Index begin, Index end) { body(0, begin, end); });
    return;
  }
  in_places(slices(n, size), places,
            [&](Index place, Index slice) { body(place, slice * size, std::min((slice + 1) * size, n)); });
}

template <typename Body>
void for_blocks(Index begin, Index end, Body body) {
  for (Index channel = begin; channel < end; channel += kChannelBlock) body(channel);
}

struct Images {
  Index channels, h, w;

  const float* block(const float* images, Index image, Index channel) const {
    return images + (image * channels + channel) * h * w;
  }
  WinogradTile tile(Index y, Index x, Index size) const {
    return {.place = y * w + x,
            .row = w,
            .top = std::max<Index>(-y, 0),
            .bottom = std::min(size, h - y),
            .left = std::max<Index>(-x, 0),
            .right = std::min(size, w - x)};
  }
};

// Tiles of the images `to`, each seeing a field of the images `from`.
struct Tiling {
  const Winograd& loops;
  Index batch;
  Images from, to;
  Plane pad;  // before `from`

  Index columns() const { return (to.w + loops.tile - 1) / loops.tile; }
  Index of_image() const { return (to.h + loops.tile - 1) / loops.tile * columns(); }
  Index tiles() const { return batch * of_image(); }

  // body(row of the matrices, image, first output's y and x) of the tiles [begin, end).
  template <typename Body>
  void for_tiles(Index begin, Index end, Body body) const {
    in_parallel(end - begin, [&](Index row) {
      const Index tile = begin + row;
      const Index within = tile % of_image();
      body(row, tile / of_image(), within / columns() * loops.tile, within % columns() * loops.tile);
    });
  }
  WinogradTile field(Index y, Index x) const { return from.tile(y - pad[0], x - pad[1], loops.field); }
  WinogradTile tile(Index y, Index x) const { return to.tile(y, x, loops.tile); }
};

bool is_pair(const ConvShape& s) {
  return s.in_plane() == 4 && s.in_h == 2 && s.out_plane() == 4 && s.out_h == 2 &&
         s.window.pad_begin == Plane{1, 1};
}

// `of_input`: of the gradient of the input.
Tiling tiling_of(const ConvShape& s, bool of_input) {
  const Images x{s.in_channels, s.in_h, s.in_w};
  const Images y{s.out_channels, s.out_h, s.out_w};
  Plane pad = s.window.pad_begin;
  if (of_input) pad = {2 - pad[0], 2 - pad[1]};
  if (is_pair(s)) pad = {0, 0};  // which its matrices know
  return {.loops = is_pair(s) ? *loops().winograd_of_pairs : *loops().winograd,
          .batch = s.batch,
          .from = of_input ? y : x,
          .to = of_input ? x : y,
          .pad = pad};
}

struct Slices {
  Index channels, tiles;
};

// As many tiles and whole panels of channels as fit. A tile has tile_floats besides those of the slice's
// channels, a channel has weights of channel_floats.
Slices slices_of(const Tiling& tiling, Index channels, Index tile_floats, Index channel_floats) {
  constexpr Index kRows = 8;  // that a product takes at once
  const auto most_channels = [&](Index floats) {
    return std::clamp<Index>(floats / (channel_floats * kPanel), 1, panels(channels)) * kPanel;
  };
  const auto most_tiles = [&](Index slice) {
    return std::max(kSliceFloats / (tile_floats + tiling.loops.matrices * slice), kRows);
  };
  const Index few = most_channels(kSmallSliceFloats);
  const bool at_once = most_tiles(few) >= tiling.tiles();
  const Index slice = at_once ? few : most_channels(kSliceFloats);
  const Index count = (tiling.tiles() + most_tiles(slice) - 1) / most_tiles(slice);
  const Index tiles = (tiling.tiles() + count - 1) / count;
  return {slice, (tiles + kRows - 1) / kRows * kRows};
}

// Conv, and ConvGradInput, which is a convolution with the weight's windows turned and its channels
// exchanged.
class Convolution {
 public:
  Convolution(const ConvShape& s, bool of_input, bool relu)
      : tiling_(tiling_of(s, of_input)),
        window_step_(of_input ? kTaps : s.in_channels * kTaps),
        depth_step_(of_input ? s.in_channels * kTaps : kTaps),
        turned_(of_input),
        relu_(relu),
        slice_(slices_of(tiling_, tiling_.to.channels, matrices() * depth(), matrices() * depth())),
        places_(at_once() ? places_for(slices(tiling_.to.channels, slice_.channels)) : 1),
        weight_step_(apart(slice_.channels * depth())),
        from_step_(apart(slice_.tiles * depth())),
        to_step_(apart(slice_.tiles * slice_.channels)) {}

  std::size_t scratch_bytes() const {
    return float_bytes(matrices() * (from_step_ + places_ * (weight_step_ + to_step_)));
  }

  void run(const float* from, const float* weight, const float* bias, float* to, float* scratch) const {
    float* const fields = scratch;
    const auto weights_of = [&](Index place) {
      return scratch + matrices() * (from_step_ + place * (weight_step_ + to_step_));
    };
    const auto run_slice = [&](Index place, Index first, Index last) {
      float* const weights = weights_of(place);
      float* const results = weights + matrices() * weight_step_;
      transform_weight(weight, first, last, weights);
      for_slices(tiling_.tiles(), slice_.tiles, [&](Index begin, Index end) {
        if (!at_once()) transform_fields(from, begin, end, fields);
        multiply(fields, weights, end - begin, last - first, results);
        write_tiles(results, begin, end, first, last, bias, to);
      });
    };
    if (at_once()) transform_fields(from, 0, tiling_.tiles(), fields);
    for_slices_in_places(tiling_.to.channels, slice_.channels, places_, run_slice);
  }

 private:
  Index matrices() const { return tiling_.loops.matrices; }
  Index depth() const { return tiling_.from.channels; }
  bool at_once() const { return slice_.tiles >= tiling_.tiles(); }

  void transform_weight(const float* weight, Index first, Index last, float* weights) const {
    in_parallel(depth(), [&](Index k) {
      for_blocks(first, last, [&](Index channel) {
        tiling_.loops.weight(weight + channel * window_step_ + k * depth_step_, window_step_, turned_,
                             weights + column(channel - first, depth()) + k * kPanel, weight_step_);
      });
    });
  }

  void transform_fields(const float* from, Index begin, Index end, float* fields) const {
    tiling_.for_tiles(begin, end, [&](Index row, Index image, Index y, Index x) {
      const WinogradTile field = tiling_.field(y, x);
      for_blocks(0, depth(), [&](Index channel) {
        tiling_.loops.input(field, tiling_.from.block(from, image, channel), fields + row * depth() + channel,
                            from_step_);
      });
    });
  }

  void multiply(const float* fields, const float* weights, Index tiles, Index channels,
                float* results) const {
    in_parallel(matrices(), [&](Index matrix) {
      for_slices(channels, kPanel, [&](Index first, Index last) {
        loops_.multiply({.m = tiles,
                         .n = last - first,
                         .k = depth(),
                         .a = fields + matrix * from_step_,
                         .a_row = depth(),
                         .a_column = 1,
                         .b = weights + matrix * weight_step_ + column(first, depth()),
                         .b_row = kPanel,
                         .c = results + matrix * to_step_ + column(first, slice_.tiles),
                         .c_row = kPanel});
      });
    });
  }

  void write_tiles(const float* results, Index begin, Index end, Index first, Index last, const float* bias,
                   float* to) const {
    tiling_.for_tiles(begin, end, [&](Index row, Index image, Index y, Index x) {
      const WinogradTile tile = tiling_.tile(y, x);
      for_blocks(first, last, [&](Index channel) {
        tiling_.loops.output(tile, results + column(channel - first, slice_.tiles) + row * kPanel, to_step_,
                             bias == nullptr ? nullptr : bias + channel, relu_,
                             to + (image * tiling_.to.channels + channel) * tiling_.to.h * tiling_.to.w);
      });
    });
  }

  const Loops& loops_ = loops();
  Tiling tiling_;
  Index window_step_, depth_step_;  // between windows of neighbouring results, and of neighbouring sources
  bool turned_, relu_;
  Slices slice_;  // of the result's channels
  Index places_;  // of threads that take slices of channels
  Index weight_step_, from_step_, to_step_;
};

// ConvGradWeight: products of the tiles' fields and the tiles of dY, over all tiles.
class WeightGradient {
 public:
  explicit WeightGradient(const ConvShape& s)
      : tiling_(tiling_of(s, false)),
        slice_(slices_of(tiling_, s.in_channels, matrices() * results(), matrices() * results())),
        places_(at_once() ? places_for(slices(s.in_channels, slice_.channels)) : 1),
        from_step_(apart(slice_.tiles * slice_.channels)),
        to_step_(apart(slice_.tiles * results())),
        weight_step_(apart(slice_.channels * results())) {}

  std::size_t scratch_bytes() const {
    return float_bytes(matrices() * (to_step_ + places_ * (weight_step_ + from_step_)));
  }

  void run(const float* x, const float* dy, float* dw, float* scratch) const {
    float* const tiles = scratch;
    const auto weights_of = [&](Index place) {
      return scratch + matrices() * (to_step_ + place * (weight_step_ + from_step_));
    };
    const auto run_slice = [&](Index place, Index first, Index last) {
      float* const weights = weights_of(place);
      float* const fields = weights + matrices() * weight_step_;
      for_slices(tiling_.tiles(), slice_.tiles, [&](Index begin, Index end) {
        transform_fields(x, begin, end, first, last, fields);
        if (!at_once()) transform_tiles(dy, begin, end, tiles);
        multiply(fields, tiles, end - begin, last - first, begin > 0, weights);
      });
      write_weight(weights, first, last, dw);
    };
    if (at_once()) transform_tiles(dy, 0, tiling_.tiles(), tiles);
    for_slices_in_places(tiling_.from.channels, slice_.channels, places_, run_slice);
  }

  void sum_bias(const float* dy, float* db) const {
    const Images& images = tiling_.to;
    for_blocks(0, images.channels, [&](Index channel) {
      std::fill_n(db + channel, kChannelBlock, 0.0F);
      for (Index image = 0; image < tiling_.batch; ++image) {
        alignas(64) float sums[kChannelBlock];
        loops_.column_sums(images.h * images.w, kChannelBlock, images.block(dy, image, channel), sums);
        for (Index i = 0; i < kChannelBlock; ++i) db[channel + i] += sums[i];
      }
    });
  }

 private:
  Index matrices() const { return tiling_.loops.matrices; }
  bool at_once() const { return slice_.tiles >= tiling_.tiles(); }
  // Channels of the result, in whole panels.
  Index results() const { return panels(tiling_.to.channels) * kPanel; }

  void transform_fields(const float* x, Index begin, Index end, Index first, Index last,
                        float* fields) const {
    tiling_.for_tiles(begin, end, [&](Index row, Index image, Index top, Index left) {
      const WinogradTile field = tiling_.field(top, left);
      for_blocks(first, last, [&](Index channel) {
        tiling_.loops.input(field, tiling_.from.block(x, image, channel),
                            fields + column(channel - first, slice_.tiles) + row * kPanel, from_step_);
      });
    });
  }

  void transform_tiles(const float* dy, Index begin, Index end, float* tiles) const {
    tiling_.for_tiles(begin, end, [&](Index row, Index image, Index top, Index left) {
      const WinogradTile tile = tiling_.tile(top, left);
      for_blocks(0, tiling_.to.channels, [&](Index channel) {
        tiling_.loops.output_grad(tile, tiling_.to.block(dy, image, channel),
                                  tiles + column(channel, slice_.tiles) + row * kPanel, to_step_);
      });
    });
  }

  // Windows of the source's panel p and the result's panel q are a matrix of 32 x 32.
  Index window(Index from, Index to) const {
    return (from / kPanel * panels(tiling_.to.channels) + to / kPanel) * kPanel * kPanel +
           from % kPanel * kPanel + to % kPanel;
  }

  void multiply(const float* fields, const float* tiles, Index count, Index channels, bool accumulates,
                float* weights) const {
    in_parallel(matrices(), [&](Index matrix) {
      for_slices(channels, kPanel, [&](Index from, Index from_end) {
        for_slices(tiling_.to.channels, kPanel, [&](Index to, Index to_end) {
          loops_.multiply({.m = from_end - from,
                           .n = to_end - to,
                           .k = count,
                           .a = fields + matrix * from_step_ + column(from, slice_.tiles),
                           .a_row = 1,
                           .a_column = kPanel,
                           .b = tiles + matrix * to_step_ + column(to, slice_.tiles),
                           .b_row = kPanel,
                           .c = weights + matrix * weight_step_ + window(from, to),
                           .c_row = kPanel,
                           .accumulates = accumulates});
        });
      });
    });
  }

  void write_weight(const float* weights, Index first, Index last, float* dw) const {
    const Index depth = tiling_.from.channels * kTaps;
    in_parallel(tiling_.to.channels / kChannelBlock, [&](Index block) {
      const Index to = block * kChannelBlock;
      for (Index from = first; from < last; ++from) {
        tiling_.loops.weight_grad(weights + window(from - first, to), weight_step_,
                                  dw + to * depth + from * kTaps, depth);
      }
    });
  }

  const Loops& loops_ = loops();
  Tiling tiling_;
  Slices slice_;  // of the source's channels
  Index places_;  // of threads that take slices of channels
  Index from_step_, to_step_, weight_step_;
};

bool serves(const ConvShape& s) {
  const Window& w = s.window;
  const auto is_pad = [](Index pad) { return pad >= 0 && pad <= 2; };
  return w.kernel == Plane{3, 3} && w.stride == Plane{1, 1} && w.dilation == Plane{1, 1} && s.groups == 1 &&
         s.in_channels % kChannelBlock == 0 && s.out_channels % kChannelBlock == 0 &&
         is_pad(w.pad_begin[0]) && is_pad(w.pad_begin[1]);
}

std::unique_ptr<Kernel> make_winograd(const KernelRequest& request) {
  if (!request.asks_for("winograd")) return nullptr;
  // Of a weight that is not trained only the bias has a gradient.
  if (request.op.type == "ConvGradWeight" && request.op.outputs[0] == kNoValue) return nullptr;
  const ConvShape s = conv_shape(request);
  if (!serves(s)) return nullptr;
  const std::string& type = request.op.type;
  if (type == "Conv" || type == "ConvGradInput") {
    const Convolution convolution(s, type == "ConvGradInput", has_activation(request.op));
    return lambda_kernel(
        [convolution](const Arguments& args) {
          convolution.run(args.in(0), args.in(1), args.in(2), args.out(0), args.floats());
        },
        convolution.scratch_bytes());
  }
  if (type != "ConvGradWeight") return nullptr;
  const WeightGradient gradient(s);
  return lambda_kernel(
      [gradient](const Arguments& args) {
        if (args.out(0) != nullptr) gradient.run(args.in(1), args.in(0), args.out(0), args.floats());
        if (args.out(1) != nullptr) gradient.sum_bias(args.in(0), args.out(1));
      },
      gradient.scratch_bytes());
}

}  // namespace

void add_winograd(KernelTable& table) {
  table.add_blocked("Conv", {.make = make_winograd, .fuses = true});
  table.add_blocked("ConvGradInput", {make_winograd});
  table.add_blocked("ConvGradWeight", {make_winograd});
}

}  // namespace rookery::simd
