// Conv and its gradients for 3 x 3 windows on images in blocks, by Winograd's algorithm (loops/winograd.cpp):
// 36 matrix products of tiles by channels. Work goes in slices of channels and of tiles, so that what is
// transformed stays in the cache and scratch memory is bounded whatever the sizes.
//
// Matrices are in panels of 32 columns; each of the 36 has a little room behind it, since matrices that are a
// power of two apart would share few places of the cache.
#include <algorithm>

#include "models/graph/blocked_layout.hpp"
#include "models/graph/fuse.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes.hpp"
#include "models/kernels/simd/families.hpp"
#include "models/kernels/simd/loops/loops.hpp"

namespace rookery::simd {

namespace {

constexpr Index kMatrices = 36;
constexpr Index kTile = 4;
constexpr Index kField = 6;  // inputs that a tile of outputs sees, along an axis
constexpr Index kTaps = 9;
constexpr Index kBlock = kChannelBlock;
constexpr Index kPanel = 2 * kBlock;
constexpr Index kSliceBytes = 8 << 20;

Index panels(Index channels) {
  return (channels + kPanel - 1) / kPanel;
}
Index apart(Index matrix) {
  return matrix + kBlock;
}
// Where a channel's column begins in panels of `rows` rows.
Index column(Index channel, Index rows) {
  return channel / kPanel * rows * kPanel + channel % kPanel;
}

// body(begin, end) for [0, n) in slices of `size`.
template <typename Body>
void for_slices(Index n, Index size, Body body) {
  for (Index begin = 0; begin < n; begin += size) body(begin, std::min(begin + size, n));
}

template <typename Body>
void for_blocks(Index begin, Index end, Body body) {
  for (Index channel = begin; channel < end; channel += kBlock) body(channel);
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

// Tiles of 4 x 4 of the images `to`, each seeing 6 x 6 of the images `from`.
struct Tiling {
  Index batch;
  Images from, to;
  Plane pad;  // before `from`

  Index columns() const { return (to.w + kTile - 1) / kTile; }
  Index of_image() const { return (to.h + kTile - 1) / kTile * columns(); }
  Index tiles() const { return batch * of_image(); }

  // body(row of the matrices, image, first output's y and x) of the tiles [begin, end).
  template <typename Body>
  void for_tiles(Index begin, Index end, Body body) const {
    for (Index tile = begin; tile < end; ++tile) {
      const Index within = tile % of_image();
      body(tile - begin, tile / of_image(), within / columns() * kTile, within % columns() * kTile);
    }
  }
  WinogradTile field(Index y, Index x) const { return from.tile(y - pad[0], x - pad[1], kField); }
};

// Panels of channels of which `bytes_of_one` fit into a slice, in channels.
Index channel_slice(Index channels, Index bytes_of_one) {
  return std::clamp<Index>(kSliceBytes / bytes_of_one, 1, panels(channels)) * kPanel;
}

// Equal slices of tiles, whole vectors of rows, `channels` columns of which fit into a slice.
Index tile_slice(Index tiles, Index channels) {
  constexpr Index kRows = 8;
  const Index most = std::max(kSliceBytes / (kMatrices * channels * Index{sizeof(float)}), kRows);
  const Index slices = (tiles + most - 1) / most;
  return ((tiles + slices - 1) / slices + kRows - 1) / kRows * kRows;
}

std::size_t bytes(Index floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

// Conv, and ConvGradInput, which is a convolution with the weight's windows turned and its channels
// exchanged.
class Convolution {
 public:
  Convolution(const ConvShape& s, bool of_input, bool relu)
      : tiling_(tiling(s, of_input)),
        window_step_(of_input ? kTaps : s.in_channels * kTaps),
        depth_step_(of_input ? s.in_channels * kTaps : kTaps),
        turned_(of_input),
        relu_(relu),
        slice_(channel_slice(tiling_.to.channels, kMatrices * kPanel * depth() * Index{sizeof(float)})),
        tiles_(tile_slice(tiling_.tiles(), depth() + slice_)),
        weight_step_(apart(slice_ * depth())),
        from_step_(apart(tiles_ * depth())),
        to_step_(apart(tiles_ * slice_)) {}

  std::size_t scratch_bytes() const { return bytes(kMatrices * (weight_step_ + from_step_ + to_step_)); }

  void run(const float* from, const float* weight, const float* bias, float* to, float* scratch) const {
    float* const weights = scratch;
    float* const fields = weights + kMatrices * weight_step_;
    float* const results = fields + kMatrices * from_step_;
    const bool at_once = tiles_ >= tiling_.tiles();
    for_slices(tiling_.to.channels, slice_, [&](Index first, Index last) {
      transform_weight(weight, first, last, weights);
      for_slices(tiling_.tiles(), tiles_, [&](Index begin, Index end) {
        if (first == 0 || !at_once) transform_fields(from, begin, end, fields);
        multiply(fields, weights, end - begin, last - first, results);
        write_tiles(results, begin, end, first, last, bias, to);
      });
    });
  }

 private:
  static Tiling tiling(const ConvShape& s, bool of_input) {
    const Images x{s.in_channels, s.in_h, s.in_w};
    const Images y{s.out_channels, s.out_h, s.out_w};
    const Plane& pad = s.window.pad_begin;
    if (of_input) return {.batch = s.batch, .from = y, .to = x, .pad = {2 - pad[0], 2 - pad[1]}};
    return {.batch = s.batch, .from = x, .to = y, .pad = pad};
  }

  Index depth() const { return tiling_.from.channels; }

  void transform_weight(const float* weight, Index first, Index last, float* weights) const {
    for (Index k = 0; k < depth(); ++k) {
      for_blocks(first, last, [&](Index channel) {
        loops_.winograd_weight(weight + channel * window_step_ + k * depth_step_, window_step_, turned_,
                               weights + column(channel - first, depth()) + k * kPanel, weight_step_);
      });
    }
  }

  void transform_fields(const float* from, Index begin, Index end, float* fields) const {
    tiling_.for_tiles(begin, end, [&](Index row, Index image, Index y, Index x) {
      const WinogradTile field = tiling_.field(y, x);
      for_blocks(0, depth(), [&](Index channel) {
        loops_.winograd_input(field, tiling_.from.block(from, image, channel),
                              fields + row * depth() + channel, from_step_);
      });
    });
  }

  void multiply(const float* fields, const float* weights, Index tiles, Index channels,
                float* results) const {
    for (Index matrix = 0; matrix < kMatrices; ++matrix) {
      for_slices(channels, kPanel, [&](Index first, Index last) {
        loops_.multiply({.m = tiles,
                         .n = last - first,
                         .k = depth(),
                         .a = fields + matrix * from_step_,
                         .a_row = depth(),
                         .a_column = 1,
                         .b = weights + matrix * weight_step_ + column(first, depth()),
                         .b_row = kPanel,
                         .c = results + matrix * to_step_ + column(first, tiles_),
                         .c_row = kPanel});
      });
    }
  }

  void write_tiles(const float* results, Index begin, Index end, Index first, Index last, const float* bias,
                   float* to) const {
    tiling_.for_tiles(begin, end, [&](Index row, Index image, Index y, Index x) {
      const WinogradTile tile = tiling_.to.tile(y, x, kTile);
      for_blocks(first, last, [&](Index channel) {
        loops_.winograd_output(tile, results + column(channel - first, tiles_) + row * kPanel, to_step_,
                               bias == nullptr ? nullptr : bias + channel, relu_,
                               to + (image * tiling_.to.channels + channel) * tiling_.to.h * tiling_.to.w);
      });
    });
  }

  const Loops& loops_ = loops();
  Tiling tiling_;
  Index window_step_, depth_step_;  // between windows of neighbouring results, and of neighbouring sources
  bool turned_, relu_;
  Index slice_, tiles_;  // channels of the result and tiles that are computed together
  Index weight_step_, from_step_, to_step_;
};

// ConvGradWeight: products of the tiles' fields and the tiles of dY, over all tiles.
class WeightGradient {
 public:
  explicit WeightGradient(const ConvShape& s)
      : tiling_{.batch = s.batch,
                .from = {s.in_channels, s.in_h, s.in_w},
                .to = {s.out_channels, s.out_h, s.out_w},
                .pad = s.window.pad_begin},
        slice_(
            channel_slice(s.in_channels, kMatrices * kPanel * padded(s.out_channels) * Index{sizeof(float)})),
        tiles_(tile_slice(tiling_.tiles(), slice_ + s.out_channels)),
        from_step_(apart(tiles_ * slice_)),
        to_step_(apart(tiles_ * padded(s.out_channels))),
        weight_step_(apart(slice_ * padded(s.out_channels))) {}

  std::size_t scratch_bytes() const { return bytes(kMatrices * (weight_step_ + from_step_ + to_step_)); }

  void run(const float* x, const float* dy, float* dw, float* scratch) const {
    float* const weights = scratch;
    float* const fields = weights + kMatrices * weight_step_;
    float* const tiles = fields + kMatrices * from_step_;
    const bool at_once = tiles_ >= tiling_.tiles();
    for_slices(tiling_.from.channels, slice_, [&](Index first, Index last) {
      for_slices(tiling_.tiles(), tiles_, [&](Index begin, Index end) {
        transform_fields(x, begin, end, first, last, fields);
        if (first == 0 || !at_once) transform_tiles(dy, begin, end, tiles);
        multiply(fields, tiles, end - begin, last - first, begin > 0, weights);
      });
      write_weight(weights, first, last, dw);
    });
  }

  void sum_bias(const float* dy, float* db) const {
    const Images& images = tiling_.to;
    for_blocks(0, images.channels, [&](Index channel) {
      std::fill_n(db + channel, kBlock, 0.0F);
      for (Index image = 0; image < tiling_.batch; ++image) {
        alignas(64) float sums[kBlock];
        loops_.column_sums(images.h * images.w, kBlock, images.block(dy, image, channel), sums);
        for (Index i = 0; i < kBlock; ++i) db[channel + i] += sums[i];
      }
    });
  }

 private:
  static Index padded(Index channels) { return panels(channels) * kPanel; }

  void transform_fields(const float* x, Index begin, Index end, Index first, Index last,
                        float* fields) const {
    tiling_.for_tiles(begin, end, [&](Index row, Index image, Index top, Index left) {
      const WinogradTile field = tiling_.field(top, left);
      for_blocks(first, last, [&](Index channel) {
        loops_.winograd_input(field, tiling_.from.block(x, image, channel),
                              fields + column(channel - first, tiles_) + row * kPanel, from_step_);
      });
    });
  }

  void transform_tiles(const float* dy, Index begin, Index end, float* tiles) const {
    tiling_.for_tiles(begin, end, [&](Index row, Index image, Index top, Index left) {
      const WinogradTile tile = tiling_.to.tile(top, left, kTile);
      for_blocks(0, tiling_.to.channels, [&](Index channel) {
        loops_.winograd_output_grad(tile, tiling_.to.block(dy, image, channel),
                                    tiles + column(channel, tiles_) + row * kPanel, to_step_);
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
    for (Index matrix = 0; matrix < kMatrices; ++matrix) {
      for_slices(channels, kPanel, [&](Index from, Index from_end) {
        for_slices(tiling_.to.channels, kPanel, [&](Index to, Index to_end) {
          loops_.multiply({.m = from_end - from,
                           .n = to_end - to,
                           .k = count,
                           .a = fields + matrix * from_step_ + column(from, tiles_),
                           .a_row = 1,
                           .a_column = kPanel,
                           .b = tiles + matrix * to_step_ + column(to, tiles_),
                           .b_row = kPanel,
                           .c = weights + matrix * weight_step_ + window(from, to),
                           .c_row = kPanel,
                           .accumulates = accumulates});
        });
      });
    }
  }

  void write_weight(const float* weights, Index first, Index last, float* dw) const {
    const Index depth = tiling_.from.channels * kTaps;
    for_blocks(0, tiling_.to.channels, [&](Index to) {
      for (Index from = first; from < last; ++from) {
        loops_.winograd_weight_grad(weights + window(from - first, to), weight_step_,
                                    dw + to * depth + from * kTaps, depth);
      }
    });
  }

  const Loops& loops_ = loops();
  Tiling tiling_;
  Index slice_, tiles_;  // channels of the source and tiles that are computed together
  Index from_step_, to_step_, weight_step_;
};

bool serves(const ConvShape& s) {
  const Window& w = s.window;
  const auto is_pad = [](Index pad) { return pad >= 0 && pad <= 2; };
  return w.kernel == Plane{3, 3} && w.stride == Plane{1, 1} && w.dilation == Plane{1, 1} && s.groups == 1 &&
         s.in_channels % kBlock == 0 && s.out_channels % kBlock == 0 && is_pad(w.pad_begin[0]) &&
         is_pad(w.pad_begin[1]);
}

}  // namespace

std::unique_ptr<Kernel> make_winograd(const KernelRequest& request) {
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

}  // namespace rookery::simd
