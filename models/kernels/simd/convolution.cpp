// Conv and its gradients for few channels, image by image: the receptive fields of an image are the
// columns of a small matrix (im2col). Tiny maps are served by dense_convolution.cpp.
#include <algorithm>

#include "models/graph/op_attributes.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"
#include "models/kernels/simd/dense_convolution.hpp"
#include "models/kernels/simd/loops/loops.hpp"

namespace rookery::simd {
namespace {

// Images whose columns are multiplied together: many, so that sums are seldom moved to memory and back, but
// only some where the columns would leave a core's cache.
constexpr Index kMostTogether = 16;
constexpr Index kFewTogether = 4;
constexpr Index kColumnsInCache = 12 << 10;

// The buffers of one kernel run, in floats, and how an image is unfolded.
struct Plan {
  ConvShape s;
  const Loops& loops;
  Unfold unfold;

  Index row() const { return unfold.row; }  // of columns: out_plane, padded to whole vectors
  bool is_padded() const { return row() != s.out_plane(); }
  Index padded_size() const { return align(s.in_channels * unfold.padded_h * unfold.padded_w); }
  static Index align(Index floats) {
    return static_cast<Index>(align_up(static_cast<std::size_t>(floats) * 4) / 4);
  }
  const float* x_of(const float* x, Index image) const { return x + image * s.in_channels * s.in_plane(); }
  const float* y_of(const float* y, Index image) const { return y + image * s.out_channels * s.out_plane(); }
};

Plan make_plan(const ConvShape& s) {
  const Loops& all = loops();
  const Window& w = s.window;
  const auto reach = [&](std::size_t axis, Index in, Index out) {
    return std::max(in + w.pad_begin[axis],
                    (out - 1) * w.stride[axis] + (w.kernel[axis] - 1) * w.dilation[axis] + 1);
  };
  return {.s = s,
          .loops = all,
          .unfold = {.channels = s.in_channels,
                     .in_h = s.in_h,
                     .in_w = s.in_w,
                     .out_h = s.out_h,
                     .out_w = s.out_w,
                     .padded_h = reach(0, s.in_h, s.out_h),
                     .padded_w = reach(1, s.in_w, s.out_w),
                     .pad_top = w.pad_begin[0],
                     .pad_left = w.pad_begin[1],
                     .kernel_h = w.kernel[0],
                     .kernel_w = w.kernel[1],
                     .stride_h = w.stride[0],
                     .stride_w = w.stride[1],
                     .dilation_h = w.dilation[0],
                     .dilation_w = w.dilation[1],
                     .row = (s.out_plane() + all.lanes - 1) / all.lanes * all.lanes}};
}

// Rows of `columns` floats to rows of `padded`, zeros behind.
void pad_rows(Index rows, Index columns, Index padded, const float* from, float* to) {
  for (Index i = 0; i < rows; ++i) {
    std::copy_n(from + i * columns, columns, to + i * padded);
    std::fill_n(to + i * padded + columns, padded - columns, 0.0F);
  }
}

std::unique_ptr<Kernel> make_image_conv(const Plan& p, bool relu) {
  if (p.loops.is_shallow(p.unfold)) {
    return lambda_kernel([p, relu](const Arguments& args) {
      p.loops.shallow_convolution(p.unfold, p.s.batch, p.s.out_channels, args.in(0), args.in(1), args.in(2),
                                  relu, args.out(0));
    });
  }
  const Index columns_size = p.s.depth() * p.row();
  return lambda_kernel(
      [p, columns_size, relu](const Arguments& args) {
        float* padded = args.floats();
        float* columns = padded + p.padded_size();
        std::fill_n(padded, p.padded_size() + columns_size, 0.0F);
        for (Index image = 0; image < p.s.batch; ++image) {
          p.loops.unfold(p.unfold, p.x_of(args.in(0), image), padded, columns);
          p.loops.multiply({.m = p.s.out_channels,
                            .n = p.s.out_plane(),
                            .k = p.s.depth(),
                            .a = args.in(1),
                            .a_row = p.s.depth(),
                            .a_column = 1,
                            .b = columns,
                            .b_row = p.row(),
                            .c = args.out(0) + image * p.s.out_channels * p.s.out_plane(),
                            .c_row = p.s.out_plane(),
                            .rows = args.in(2),
                            .relu = relu});
        }
      },
      float_bytes(p.padded_size() + columns_size));
}

std::unique_ptr<Kernel> make_image_conv_grad_input(const Plan& p) {
  const Index columns_size = p.s.depth() * p.row();
  const Index gradient_size = p.is_padded() ? p.s.out_channels * p.row() : 0;
  return lambda_kernel(
      [p, columns_size](const Arguments& args) {
        float* padded = args.floats();
        float* columns = padded + p.padded_size();
        float* gradient = columns + columns_size;
        for (Index image = 0; image < p.s.batch; ++image) {
          const float* dy = p.y_of(args.in(0), image);
          if (p.is_padded()) pad_rows(p.s.out_channels, p.s.out_plane(), p.row(), dy, gradient);
          p.loops.multiply({.m = p.s.depth(),
                            .n = p.s.out_plane(),
                            .k = p.s.out_channels,
                            .a = args.in(1),
                            .a_row = 1,
                            .a_column = p.s.depth(),
                            .b = p.is_padded() ? gradient : dy,
                            .b_row = p.row(),
                            .c = columns,
                            .c_row = p.row()});
          p.loops.fold(p.unfold, columns, padded, args.out(0) + image * p.s.in_channels * p.s.in_plane());
        }
      },
      float_bytes(p.padded_size() + columns_size + gradient_size));
}

// A row of ones below the columns gives the gradient of the bias as one more column of the product.
std::unique_ptr<Kernel> make_image_conv_grad_weight(const Plan& p) {
  const Index taps = p.s.depth() + 1;
  const Index together = std::clamp(kColumnsInCache / (taps * p.row()), kFewTogether, kMostTogether);
  const Index columns_size = together * taps * p.row();
  const Index gradient_size = p.is_padded() ? together * p.s.out_channels * p.row() : 0;
  const Index sums_size = p.s.out_channels * taps * p.loops.lanes;
  return lambda_kernel(
      [=](const Arguments& args) {
        float* padded = args.floats();
        float* columns = padded + p.padded_size();
        float* gradient = columns + columns_size;
        float* sums = gradient + gradient_size;
        float* totals = sums + sums_size;
        std::fill_n(padded, p.padded_size() + columns_size, 0.0F);
        std::fill_n(sums, sums_size, 0.0F);
        for (Index i = 0; i < together; ++i) {
          std::fill_n(columns + ((i + 1) * taps - 1) * p.row(), p.s.out_plane(), 1.0F);
        }
        for (Index image = 0; image < p.s.batch; image += together) {
          const Index images = std::min(together, p.s.batch - image);
          const float* dy = p.y_of(args.in(0), image);
          for (Index i = 0; i < images; ++i) {
            p.loops.unfold(p.unfold, p.x_of(args.in(1), image + i), padded, columns + i * taps * p.row());
          }
          if (p.is_padded()) pad_rows(images * p.s.out_channels, p.s.out_plane(), p.row(), dy, gradient);
          p.loops.multiply_dots({.m = p.s.out_channels,
                                 .n = taps,
                                 .chunks = images,
                                 .run = p.row(),
                                 .a = p.is_padded() ? gradient : dy,
                                 .a_row = p.row(),
                                 .a_chunk = p.s.out_channels * p.row(),
                                 .b = columns,
                                 .b_row = p.row(),
                                 .b_chunk = taps * p.row(),
                                 .sums = sums});
        }
        p.loops.sum_lanes(p.s.out_channels * taps, sums, totals);
        for (Index o = 0; o < p.s.out_channels; ++o) {
          std::copy_n(totals + o * taps, p.s.depth(), args.out(0) + o * p.s.depth());
          if (args.out(1) != nullptr) args.out(1)[o] = totals[o * taps + p.s.depth()];
        }
      },
      float_bytes(p.padded_size() + columns_size + gradient_size + sums_size + p.s.out_channels * taps));
}

std::unique_ptr<Kernel> make_conv(const KernelRequest& request) {
  const ConvShape s = conv_shape(request);
  if (s.groups != 1) return nullptr;
  const bool relu = has_activation(request.op);
  return is_tiny(s) ? make_dense_conv(s, relu) : make_image_conv(make_plan(s), relu);
}

std::unique_ptr<Kernel> make_conv_grad_input(const KernelRequest& request) {
  const ConvShape s = conv_shape(request);
  if (s.groups != 1) return nullptr;
  return is_tiny(s) ? make_dense_conv_grad_input(s) : make_image_conv_grad_input(make_plan(s));
}

std::unique_ptr<Kernel> make_conv_grad_weight(const KernelRequest& request) {
  if (request.op.outputs[0] == kNoValue) return nullptr;
  const ConvShape s = conv_shape(request);
  if (s.groups != 1) return nullptr;
  return is_tiny(s) ? make_dense_conv_grad_weight(s) : make_image_conv_grad_weight(make_plan(s));
}

// Up to here our loops beat oneDNN, which pays for layouts and packing: measured in bench/kernel_times.
bool is_small_conv(const KernelRequest& request) {
  constexpr std::int64_t kMostProducts = 1 << 24;
  constexpr std::int64_t kMostDepth = 64;
  const ConvShape s = conv_shape(request);
  const bool small = s.depth() <= kMostDepth && s.batch * s.out_plane() * s.weights() <= kMostProducts;
  return s.groups == 1 && (is_tiny(s) || small);
}

}  // namespace

void add_convolution(KernelTable& table) {
  table.add("Conv", {.make = make_conv, .prefers = is_small_conv, .fuses = true});
  table.add("ConvGradInput", {make_conv_grad_input});
  table.add("ConvGradWeight", {make_conv_grad_weight});
}

}  // namespace rookery::simd
