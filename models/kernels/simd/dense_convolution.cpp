#include "models/kernels/simd/dense_convolution.hpp"

#include <algorithm>
#include <vector>

#include "models/kernels/backend.hpp"
#include "models/kernels/simd/loops/loops.hpp"

namespace rookery::simd {

namespace {

// Tap `tap` of the window takes input place `from` to output place `to`.
struct Link {
  Index tap, from, to;
};

std::vector<Link> links_of(const ConvShape& s) {
  std::vector<Link> links;
  const Window& w = s.window;
  for (Index tap = 0; tap < s.taps(); ++tap) {
    for (Index to = 0; to < s.out_plane(); ++to) {
      const Index row = to / s.out_w * w.stride[0] + tap / w.kernel[1] * w.dilation[0] - w.pad_begin[0];
      const Index column = to % s.out_w * w.stride[1] + tap % w.kernel[1] * w.dilation[1] - w.pad_begin[1];
      if (row < 0 || row >= s.in_h || column < 0 || column >= s.in_w) continue;
      links.push_back({tap, row * s.in_w + column, to});
    }
  }
  return links;
}

struct Plan {
  ConvShape s;
  const Loops& loops;
  std::vector<Link> links;  // by rising tap

  Index inputs() const { return s.in_channels * s.in_plane(); }
  Index outputs() const { return s.out_channels * s.out_plane(); }
  Index padded(Index n) const { return (n + loops.lanes - 1) / loops.lanes * loops.lanes; }

  // The matrix whose element (input i, output j) is at matrix[i * input_step + j * output_step]; the rest
  // of its `size` elements are zeros.
  void spread(const float* w, Index input_step, Index output_step, Index size, float* matrix) const {
    std::fill_n(matrix, size, 0.0F);
    for (const Link& link : links) {
      for (Index c = 0; c < s.in_channels; ++c) {
        const float* from = w + c * s.taps() + link.tap;
        float* to = matrix + (c * s.in_plane() + link.from) * input_step + link.to * output_step;
        for (Index o = 0; o < s.out_channels; ++o) to[o * s.out_plane() * output_step] = from[o * s.depth()];
      }
    }
  }

  // The reverse: every weight's sum over the places where it was put.
  void gather(const float* matrix, Index input_step, float* w) const {
    std::fill_n(w, s.weights(), 0.0F);
    for (const Link& link : links) {
      for (Index c = 0; c < s.in_channels; ++c) {
        const float* from = matrix + (c * s.in_plane() + link.from) * input_step + link.to;
        float* to = w + c * s.taps() + link.tap;
        for (Index o = 0; o < s.out_channels; ++o) to[o * s.depth()] += from[o * s.out_plane()];
      }
    }
  }
};

Plan make_plan(const ConvShape& shape) {
  return {shape, loops(), links_of(shape)};
}

std::size_t bytes(Index floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

}  // namespace

bool is_tiny(const ConvShape& s) {
  constexpr Index kMostElements = 1 << 16;
  return s.groups == 1 && s.in_plane() <= s.taps() &&
         s.in_channels * s.in_plane() * s.out_channels * s.out_plane() <= kMostElements;
}

std::unique_ptr<Kernel> make_dense_conv(const ConvShape& shape, bool relu) {
  Plan plan = make_plan(shape);
  const Index row = plan.padded(plan.outputs());
  const std::size_t scratch = bytes((plan.inputs() + 1) * row);
  return lambda_kernel(
      [p = std::move(plan), row, relu](const Arguments& args) {
        float* matrix = args.floats();
        float* bias = matrix + p.inputs() * row;
        p.spread(args.in(1), row, 1, p.inputs() * row, matrix);
        for (Index i = 0; i < p.outputs(); ++i) {
          bias[i] = args.in(2) == nullptr ? 0 : args.in(2)[i / p.s.out_plane()];
        }
        p.loops.multiply({.m = p.s.batch,
                          .n = p.outputs(),
                          .k = p.inputs(),
                          .a = args.in(0),
                          .a_row = p.inputs(),
                          .a_column = 1,
                          .b = matrix,
                          .b_row = row,
                          .c = args.out(0),
                          .c_row = p.outputs(),
                          .columns = bias,
                          .relu = relu});
      },
      scratch);
}

std::unique_ptr<Kernel> make_dense_conv_grad_input(const ConvShape& shape) {
  Plan plan = make_plan(shape);
  const Index row = plan.padded(plan.inputs());
  const std::size_t scratch = bytes(plan.outputs() * row);
  return lambda_kernel(
      [p = std::move(plan), row](const Arguments& args) {
        p.spread(args.in(1), 1, row, p.outputs() * row, args.floats());
        p.loops.multiply({.m = p.s.batch,
                          .n = p.inputs(),
                          .k = p.outputs(),
                          .a = args.in(0),
                          .a_row = p.outputs(),
                          .a_column = 1,
                          .b = args.floats(),
                          .b_row = row,
                          .c = args.out(0),
                          .c_row = p.inputs()});
      },
      scratch);
}

std::unique_ptr<Kernel> make_dense_conv_grad_weight(const ConvShape& shape) {
  Plan plan = make_plan(shape);
  const Index row = plan.padded(plan.outputs());
  const bool copied = row != plan.outputs();
  const Index matrix_size = plan.inputs() * row;
  const std::size_t scratch = bytes(matrix_size + (copied ? plan.s.batch * row : 0) + row);
  return lambda_kernel(
      [p = std::move(plan), row, copied, matrix_size](const Arguments& args) {
        float* matrix = args.floats();
        float* sums = matrix + matrix_size;
        float* gradient = sums + row;
        const float* dy = args.in(0);
        for (Index i = 0; copied && i < p.s.batch; ++i) {
          std::copy_n(dy + i * p.outputs(), p.outputs(), gradient + i * row);
          std::fill_n(gradient + i * row + p.outputs(), row - p.outputs(), 0.0F);
        }
        p.loops.multiply({.m = p.inputs(),
                          .n = p.outputs(),
                          .k = p.s.batch,
                          .a = args.in(1),
                          .a_row = 1,
                          .a_column = p.inputs(),
                          .b = copied ? gradient : dy,
                          .b_row = row,
                          .c = matrix,
                          .c_row = row});
        p.gather(matrix, row, args.out(0));
        if (args.out(1) == nullptr) return;
        p.loops.column_sums(p.s.batch, p.outputs(), dy, sums);
        for (Index o = 0; o < p.s.out_channels; ++o) {
          float sum = 0;
          for (Index i = 0; i < p.s.out_plane(); ++i) sum += sums[o * p.s.out_plane() + i];
          args.out(1)[o] = sum;
        }
      },
      scratch);
}

}  // namespace rookery::simd
