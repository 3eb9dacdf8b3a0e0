// Conv and its gradients for 3 x 3 windows on images in blocks, by Winograd's algorithm (loops/winograd.cpp):
// matrix products of tiles by channels, 36 of them or 9. Each thread takes a part of the rows and of the
// columns of all products, from end to end and with scratch memory of its own: it transforms itself what it
// multiplies, so that it neither waits for others nor reads what they have just written. A part is done in
// slices, so that what is transformed stays in the cache and scratch memory is bounded whatever the sizes.
//
// Matrices are in panels of 32 columns; each matrix has a little room behind it, since matrices that are a
// power of two apart would share few places of the cache.
#include <algorithm>

#include "models/graph/op_attributes.hpp"
#include "models/kernels/simd/blocked_convolution.hpp"

namespace rookery::simd {
namespace {

constexpr Index kTaps = 9;
constexpr Index kTapBlock = kTaps * kChannelBlock;  // of the windows of a block of channels
// Matrices of one operand stay, in memory of this size for each thread at least and at most; the other's pass
// by them in slices that stay in a core's cache.
constexpr Index kLeastStayingFloats = 160 << 10;
constexpr Index kMostStayingFloats = 5 << 19;
constexpr Index kStayingFloatsOfAll = 8 << 20;
constexpr Index kTilesAtATime = 16;
constexpr Index kTilesOfGradientAtATime = 64;

Index apart(Index matrix) {
  return matrix + kChannelBlock;
}
// The place where a channel's column begins in panels of `rows` rows.
Index column(Index channel, Index rows) {
  return channel / kPanel * rows * kPanel + channel % kPanel;
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

  // body(row of the matrices, image, channel, first output's y and x) of these tiles and of each
  // block of channels, one after the other as images lie in memory.
  template <typename Body>
  void for_tiles(Range tiles, Range channels, Body body) const {
    Index begin = tiles.begin;
    while (begin < tiles.end) {
      const Index image = begin / of_image(), first = image * of_image();
      const Index end = std::min(first + of_image(), tiles.end);
      for_blocks(channels.begin, channels.end, [&](Index channel) {
        for (Index tile = begin; tile < end; ++tile) {
          const Index y = (tile - first) / columns(), x = (tile - first) % columns();
          body(tile - tiles.begin, image, channel, y * loops.tile, x * loops.tile);
        }
      });
      begin = end;
    }
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

Index most_staying_floats(Index parts) {
  return std::clamp(kStayingFloatsOfAll / parts, kLeastStayingFloats, kMostStayingFloats);
}

// The size of slices of tiles, a multiple of the rows that a product takes at once.
Index tile_slice(Index tiles, Index most) {
  return (even_slice(tiles, most) + kRows - 1) / kRows * kRows;
}

// Whole panels of channels whose matrices of `floats` a channel fit.
Index fitting_channels(Index channels, Index floats, Index most) {
  return std::clamp<Index>(most / (floats * kPanel), 1, panels(channels)) * kPanel;
}

// Conv, and ConvGradInput, which is a convolution with the weight's windows turned and its channels
// exchanged.
class Convolution {
 public:
  Convolution(const ConvShape& s, bool of_input, bool relu)
      : tiling_(tiling_of(s, of_input)),
        windows_{kTaps, of_input ? kTaps : s.in_channels * kTaps, of_input ? s.in_channels * kTaps : kTaps},
        turned_(of_input),
        relu_(relu),
        grid_(grid_of(tiling_.tiles(), kRows, tiling_.to.channels, matrices() * depth())),
        slice_(slices()),
        weight_step_(apart(slice_.channels * depth())),
        from_step_(apart(slice_.tiles * depth())),
        to_step_(apart(slice_.tiles * kPanel)) {}

  std::size_t scratch_bytes() const { return float_bytes(grid_.count() * floats()); }

  void run(const float* from, const float* weight, const float* bias, float* to, float* scratch) const {
    in_parts(grid_, [&](Index place, Range tiles, Range channels) {
      run_part(tiles, channels, {from, weight, bias, to}, scratch + place * floats());
    });
  }

 private:
  Index matrices() const { return tiling_.loops.matrices; }
  Index depth() const { return tiling_.from.channels; }
  Index floats() const { return matrices() * (weight_step_ + from_step_ + to_step_); }  // of a place

  struct Slices {
    Index channels, tiles;
  };
  // The fields of all tiles stay while weights pass by, a panel of channels at a time, or, where there are
  // fewer of them, the weights of channels while tiles do.
  Slices slices() const {
    const Index tiles = grid_.rows.largest(), channels = grid_.columns.largest();
    const Index floats = matrices() * depth();  // of a tile, and of a channel
    const Index most = most_staying_floats(grid_.count());
    if (tiles < channels && tiles * floats <= most) return {kPanel, tile_slice(tiles, tiles)};
    return {fitting_channels(channels, floats, most), tile_slice(tiles, kTilesAtATime)};
  }

  struct Operands {
    const float *from, *weight, *bias;
    float* to;
  };

  void run_part(Range tiles, Range channels, const Operands& at, float* scratch) const {
    float* const weights = scratch;
    float* const fields = weights + matrices() * weight_step_;
    float* const results = fields + matrices() * from_step_;
    const bool at_once = slice_.tiles >= tiles.size();
    if (at_once) transform_fields(at.from, tiles.begin, tiles.end, fields);
    for_slices(channels, slice_.channels, [&](Index first, Index last) {
      transform_weight(at.weight, first, last, weights);
      for_slices(tiles, slice_.tiles, [&](Index begin, Index end) {
        if (!at_once) transform_fields(at.from, begin, end, fields);
        for_slices({first, last}, kPanel, [&](Index panel, Index panel_end) {
          multiply(fields, weights + column(panel - first, depth()), end - begin, panel_end - panel, results);
          write_tiles(results, begin, end, panel, panel_end, at.bias, at.to);
        });
      });
    });
  }

  void transform_weight(const float* weight, Index first, Index last, float* weights) const {
    alignas(64) float taps[kChannelBlock * kTapBlock];
    for_blocks(first, last, [&](Index channel) {
      for_blocks(0, depth(), [&](Index source) {
        gather_taps(windows_, weight + channel * windows_.result_step + source * windows_.source_step, taps);
        for (Index k = 0; k < kChannelBlock; ++k) {
          tiling_.loops.weight(taps + k * kTapBlock, turned_,
                               weights + column(channel - first, depth()) + (source + k) * kPanel,
                               weight_step_);
        }
      });
    });
  }

  void transform_fields(const float* from, Index begin, Index end, float* fields) const {
    tiling_.for_tiles({begin, end}, {0, depth()},
                      [&](Index row, Index image, Index channel, Index y, Index x) {
                        tiling_.loops.input(tiling_.field(y, x), tiling_.from.block(from, image, channel),
                                            fields + row * depth() + channel, from_step_);
                      });
  }

  void multiply(const float* fields, const float* weights, Index tiles, Index channels,
                float* results) const {
    for (Index matrix = 0; matrix < matrices(); ++matrix) {
      loops_.multiply({.m = tiles,
                       .n = channels,
                       .k = depth(),
                       .a = fields + matrix * from_step_,
                       .a_row = depth(),
                       .a_column = 1,
                       .b = weights + matrix * weight_step_,
                       .b_row = kPanel,
                       .c = results + matrix * to_step_,
                       .c_row = kPanel,
                       .b_ahead = weight_step_});
    }
  }

  void write_tiles(const float* results, Index begin, Index end, Index first, Index last, const float* bias,
                   float* to) const {
    tiling_.for_tiles(
        {begin, end}, {first, last}, [&](Index row, Index image, Index channel, Index y, Index x) {
          tiling_.loops.output(tiling_.tile(y, x), results + channel - first + row * kPanel, to_step_,
                               bias == nullptr ? nullptr : bias + channel, relu_,
                               to + (image * tiling_.to.channels + channel) * tiling_.to.h * tiling_.to.w);
        });
  }

  const Loops& loops_ = loops();
  Tiling tiling_;
  Windows windows_;
  bool turned_, relu_;
  Grid grid_;     // of tiles by the result's channels
  Slices slice_;  // of a part
  Index weight_step_, from_step_, to_step_;
};

// ConvGradWeight: products of the tiles' fields and the tiles of dY, over all tiles.
class WeightGradient {
 public:
  explicit WeightGradient(const ConvShape& s)
      : tiling_(tiling_of(s, false)),
        grid_(grid_of(s.in_channels, kChannelBlock, s.out_channels, matrices() * tiling_.tiles())),
        slice_(slices()),
        from_step_(apart(slice_.tiles * slice_.sources)),
        to_step_(apart(slice_.tiles * results())),
        weight_step_(apart(slice_.sources * slice_.results)) {}

  std::size_t scratch_bytes() const { return float_bytes(grid_.count() * floats()); }

  void run(const float* x, const float* dy, float* dw, float* scratch) const {
    in_parts(grid_, [&](Index place, Range sources, Range results) {
      run_part(sources, results, x, dy, dw, scratch + place * floats());
    });
  }

 private:
  Index results() const { return panels(grid_.columns.largest()) * kPanel; }  // of a part
  Index matrices() const { return tiling_.loops.matrices; }
  Index floats() const { return matrices() * (from_step_ + to_step_ + weight_step_); }  // of a place

  struct Slices {
    Index sources, tiles, results;
  };
  // The tiles of dY stay while sources pass by, a panel at a time, or the sums of all windows while tiles do:
  // those are read and written, so that they weigh twice.
  Slices slices() const {
    const Index tiles = tiling_.tiles(), sources = grid_.rows.largest();
    const Index floats = matrices() * results();  // of a tile, and of the windows of a source
    const Index most = most_staying_floats(grid_.count());
    if (tiles <= 2 * sources && tiles * floats <= most) return {kPanel, tile_slice(tiles, tiles), kPanel};
    return {fitting_channels(sources, floats, most), tile_slice(tiles, kTilesOfGradientAtATime), results()};
  }

  void run_part(Range from, Range to, const float* x, const float* dy, float* dw, float* scratch) const {
    float* const fields = scratch;
    float* const tiles = fields + matrices() * from_step_;
    float* const weights = tiles + matrices() * to_step_;
    const Range all{0, tiling_.tiles()};
    const bool at_once = slice_.tiles >= all.size();
    if (at_once) transform_tiles(dy, all, to, tiles);
    for_slices(from, slice_.sources, [&](Index first, Index last) {
      for_slices(all, slice_.tiles, [&](Index begin, Index end) {
        transform_fields(x, {begin, end}, {first, last}, fields);
        if (!at_once) transform_tiles(dy, {begin, end}, to, tiles);
        for_slices(to, slice_.results, [&](Index result, Index result_end) {
          multiply(fields, tiles + column(result - to.begin, slice_.tiles), end - begin, last - first,
                   result_end - result, begin > 0, weights);
          if (end == all.end) write_weight(weights, {first, last}, {result, result_end}, dw);
        });
      });
    });
  }

  void transform_fields(const float* x, Range some, Range channels, float* fields) const {
    tiling_.for_tiles(some, channels, [&](Index row, Index image, Index channel, Index top, Index left) {
      tiling_.loops.input(tiling_.field(top, left), tiling_.from.block(x, image, channel),
                          fields + column(channel - channels.begin, slice_.tiles) + row * kPanel, from_step_);
    });
  }

  void transform_tiles(const float* dy, Range some, Range channels, float* tiles) const {
    tiling_.for_tiles(some, channels, [&](Index row, Index image, Index channel, Index top, Index left) {
      tiling_.loops.output_grad(tiling_.tile(top, left), tiling_.to.block(dy, image, channel),
                                tiles + column(channel - channels.begin, slice_.tiles) + row * kPanel,
                                to_step_);
    });
  }

  // Windows of a panel of sources and one of results are a matrix of 32 x 32.
  Index window(Index from, Index to) const {
    return (from / kPanel * panels(slice_.results) + to / kPanel) * kPanel * kPanel + from % kPanel * kPanel +
           to % kPanel;
  }

  void multiply(const float* fields, const float* tiles, Index count, Index sources, Index results,
                bool accumulates, float* weights) const {
    for (Index matrix = 0; matrix < matrices(); ++matrix) {
      for_slices({0, sources}, kPanel, [&](Index from, Index from_end) {
        for_slices({0, results}, kPanel, [&](Index to, Index to_end) {
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
                           .accumulates = accumulates,
                           .a_ahead = from_step_,
                           .b_ahead = to_step_});
        });
      });
    }
  }

  void write_weight(const float* weights, Range sources, Range results, float* dw) const {
    const Index depth = tiling_.from.channels * kTaps;
    alignas(64) float taps[kChannelBlock * kTapBlock];
    for_blocks(results.begin, results.end, [&](Index to) {
      for_blocks(sources.begin, sources.end, [&](Index from) {
        float* const windows = dw + to * depth + from * kTaps;
        prefetch_windows({kTaps, depth, kTaps}, windows, true);
        for (Index k = 0; k < kChannelBlock; ++k) {
          tiling_.loops.weight_grad(weights + window(from + k - sources.begin, to - results.begin),
                                    weight_step_, taps + k * kTapBlock);
        }
        loops_.transpose(kChannelBlock * kTaps, kChannelBlock, taps, kChannelBlock, windows, depth);
      });
    });
  }

  const Loops& loops_ = loops();
  Tiling tiling_;
  Grid grid_;     // of the source's channels by the result's
  Slices slice_;  // of a part; of tiles as of all parts
  Index from_step_, to_step_, weight_step_;
};

bool serves(const ConvShape& s) {
  const Window& w = s.window;
  const auto is_pad = [](Index pad) { return pad >= 0 && pad <= 2; };
  return w.kernel == Plane{3, 3} && w.stride == Plane{1, 1} && w.dilation == Plane{1, 1} && s.groups == 1 &&
         s.in_channels % kChannelBlock == 0 && s.out_channels % kChannelBlock == 0 &&
         is_pad(w.pad_begin[0]) && is_pad(w.pad_begin[1]);
}

}  // namespace

std::unique_ptr<Kernel> make_winograd(const KernelRequest& request) {
  const ConvShape s = conv_shape(request);
  if (!serves(s)) return nullptr;
  const std::string& type = request.op.type;
  if (type == "ConvGradWeight") return kernel_of_gradient<WeightGradient>(s);
  return kernel_of(Convolution(s, type == "ConvGradInput", has_activation(request.op)));
}

}  // namespace rookery::simd
