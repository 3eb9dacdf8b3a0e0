#include "models/kernels/simd/dense_convolution.hpp"

#include <algorithm>
#include <vector>

#include "models/kernels/backend.hpp"
#include "models/kernels/simd/loops/loops.hpp"

namespace rookery::simd {

namespace {

// By input place and output place: the tap that takes the one to the other, or -1.
std::vector<std::int32_t> links_of(const ConvShape& s) {
  std::vector<std::int32_t> links(s.in_plane() * s.out_plane(), -1);
  const Window& w = s.window;
  for (Index tap = 0; tap < s.taps(); ++tap) {
    for (Index to = 0; to < s.out_plane(); ++to) {
      const Index row = to / s.out_w * w.stride[0] + tap / w.kernel[1] * w.dilation[0] - w.pad_begin[0];
      const Index column = to % s.out_w * w.stride[1] + tap % w.kernel[1] * w.dilation[1] - w.pad_begin[1];
      if (row < 0 || row >= s.in_h || column < 0 || column >= s.in_w) continue;
      links[(row * s.in_w + column) * s.out_plane() + to] = static_cast<int>(tap);
    }
  }
  return links;
}

std::vector<std::int32_t> transposed(const std::vector<std::int32_t>& links, Index rows, Index columns) {
  std::vector<std::int32_t> result;
  for (Index column = 0; column < columns; ++column) {
    for (Index row = 0; row < rows; ++row) result.push_back(links[row * columns + column]);
  }
  return result;
}

struct DensePlan {
  ConvShape s;
  const Loops& loops = simd::loops();

  Index inputs() const { return s.in_channels * s.in_plane(); }
  Index outputs() const { return s.out_channels * s.out_plane(); }
  Index padded(Index n) const { return (n + loops.lanes - 1) / loops.lanes * loops.lanes; }

  // The weight as a matrix [inputs of an image, outputs], rows `row` apart.
  SpreadWindows inputs_by_outputs(const std::vector<std::int32_t>& links, Index row) const {
    return {.out_channels = s.out_channels,
            .in_channels = s.in_channels,
            .taps = s.taps(),
            .rows = s.in_plane(),
            .columns = s.out_plane(),
            .tap_at = links.data(),
            .in_step = s.in_plane() * row,
            .out_step = s.out_plane(),
            .row_step = row};
  }
  // And as its transpose; so are `links`.
  SpreadWindows outputs_by_inputs(const std::vector<std::int32_t>& links, Index row) const {
    return {.out_channels = s.out_channels,
            .in_channels = s.in_channels,
            .taps = s.taps(),
            .rows = s.out_plane(),
            .columns = s.in_plane(),
            .tap_at = links.data(),
            .in_step = s.in_plane(),
            .out_step = s.out_plane() * row,
            .row_step = row};
  }
};

}  // namespace

bool is_tiny(const ConvShape& s) {
  constexpr Index kMostElements = 1 << 16;
  return s.groups == 1 && s.in_plane() <= s.taps() &&
         s.in_channels * s.in_plane() * s.out_channels * s.out_plane() <= kMostElements;
}

std::unique_ptr<Kernel> make_dense_conv(const ConvShape& shape, bool relu) {
  const DensePlan plan{shape};
  const Index row = plan.padded(plan.outputs());
  const std::size_t scratch = float_bytes((plan.inputs() + 1) * row);
  return lambda_kernel(
      [p = plan, links = links_of(shape), row, relu](const Arguments& args) {
        float* matrix = args.floats();
        float* bias = matrix + p.inputs() * row;
        p.loops.spread_windows(p.inputs_by_outputs(links, row), args.in(1), matrix);
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
  const DensePlan plan{shape};
  const Index row = plan.padded(plan.inputs());
  const std::size_t scratch = float_bytes(plan.outputs() * row);
  return lambda_kernel(
      [p = plan, links = transposed(links_of(shape), shape.in_plane(), shape.out_plane()),
       row](const Arguments& args) {
        p.loops.spread_windows(p.outputs_by_inputs(links, row), args.in(1), args.floats());
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
  const DensePlan plan{shape};
  const Index row = plan.padded(plan.outputs());
  const bool copied = row != plan.outputs();
  const Index matrix_size = plan.inputs() * row;
  const std::size_t scratch = float_bytes(matrix_size + (copied ? plan.s.batch * row : 0) + row);
  return lambda_kernel(
      [p = plan, links = links_of(shape), row, copied, matrix_size](const Arguments& args) {
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
        p.loops.gather_windows(p.inputs_by_outputs(links, row), matrix, args.out(0));
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
