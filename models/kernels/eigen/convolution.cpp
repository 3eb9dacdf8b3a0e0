// Conv and its gradients as matrix products, image by image and group by group: the receptive fields
// of an image are the columns of a matrix [depth, out_plane] (im2col). ConvTranspose and its gradients are
// the same kernels with their parts changed (shapes.hpp).
#include <algorithm>

#include "models/kernels/backend.hpp"
#include "models/kernels/eigen/product.hpp"
#include "models/kernels/shapes/channels.hpp"
#include "models/kernels/shapes/shapes.hpp"

namespace rookery::eigen {
namespace {

// Calls visit(place in columns, place in the image) for all pairs that lie inside the image, `x` being
// the planes of one group.
template <typename Visit>
void for_each_tap(const ConvShape& s, Visit visit) {
  const Window& window = s.window;
  std::int64_t column_row = 0;
  for (std::int64_t c = 0; c < s.group_in(); ++c) {
    for (std::int64_t i = 0; i < window.kernel[0]; ++i) {
      for (std::int64_t j = 0; j < window.kernel[1]; ++j, ++column_row) {
        for (std::int64_t y = 0; y < s.out_h; ++y) {
          const std::int64_t in_y = y * window.stride[0] + i * window.dilation[0] - window.pad_begin[0];
          if (in_y < 0 || in_y >= s.in_h) continue;
          for (std::int64_t x = 0; x < s.out_w; ++x) {
            const std::int64_t in_x = x * window.stride[1] + j * window.dilation[1] - window.pad_begin[1];
            if (in_x < 0 || in_x >= s.in_w) continue;
            visit(column_row * s.out_plane() + y * s.out_w + x, c * s.in_plane() + in_y * s.in_w + in_x);
          }
        }
      }
    }
  }
}

void image_to_columns(const ConvShape& s, const float* image, float* columns) {
  std::fill_n(columns, s.depth() * s.out_plane(), 0.0F);
  for_each_tap(s, [&](std::int64_t column, std::int64_t place) { columns[column] = image[place]; });
}

// The part that belongs to one image and one group.
struct Part {
  const ConvShape& s;
  std::int64_t image, group;

  std::int64_t x() const { return (image * s.in_channels + group * s.group_in()) * s.in_plane(); }
  std::int64_t y() const { return (image * s.out_channels + group * s.group_out()) * s.out_plane(); }
  std::int64_t w() const { return group * s.group_out() * s.depth(); }
};

template <typename Body>
void for_each_part(const ConvShape& s, Body body) {
  for (std::int64_t image = 0; image < s.batch; ++image) {
    for (std::int64_t group = 0; group < s.groups; ++group) body(Part{s, image, group});
  }
}

std::size_t columns_bytes(const ConvShape& s) {
  return static_cast<std::size_t>(s.depth() * s.out_plane()) * sizeof(float);
}

// Every element of [batch, channels, plane] its channel's bias, or zero where there is none.
void fill_bias(std::int64_t batch, std::int64_t channels, std::int64_t plane, const float* bias, float* y) {
  for (std::int64_t i = 0; i < batch * channels; ++i) {
    std::fill_n(y + i * plane, plane, bias == nullptr ? 0.0F : bias[i % channels]);
  }
}

// The kernel of an op whose weight is not trained.
std::unique_ptr<Kernel> make_bias_gradient(const Shape& y) {
  const Plane plane = plane_of(y);
  return lambda_kernel([batch = y[0], channels = y[1], size = plane[0] * plane[1]](const Arguments& args) {
    sum_channels(batch, channels, size, args.in(0), args.out(1));
  });
}

std::unique_ptr<Kernel> make_conv(const KernelRequest& request) {
  const ConvShape s = conv_shape(request);
  return lambda_kernel(
      [s](const Arguments& args) {
        float* y = args.out(0);
        fill_bias(s.batch, s.out_channels, s.out_plane(), args.in(2), y);
        for_each_part(s, [&](const Part& part) {
          image_to_columns(s, args.in(0) + part.x(), args.floats());
          multiply(dense(args.in(1) + part.w(), s.group_out(), s.depth()),
                   dense(args.floats(), s.depth(), s.out_plane()), 1, true, y + part.y());
        });
      },
      columns_bytes(s));
}

std::unique_ptr<Kernel> make_conv_grad_input(const KernelRequest& request) {
  const ConvShape s = conv_shape(request);
  return lambda_kernel(
      [s](const Arguments& args) {
        float* dx = args.out(0);
        fill_bias(s.batch, s.in_channels, s.in_plane(), args.in(2), dx);
        for_each_part(s, [&](const Part& part) {
          float* columns = args.floats();
          multiply(dense(args.in(1) + part.w(), s.group_out(), s.depth(), true),
                   dense(args.in(0) + part.y(), s.group_out(), s.out_plane()), 1, false, columns);
          float* image = dx + part.x();
          for_each_tap(s, [&](std::int64_t column, std::int64_t place) { image[place] += columns[column]; });
        });
      },
      columns_bytes(s));
}

std::unique_ptr<Kernel> make_conv_grad_weight(const KernelRequest& request) {
  if (request.op.outputs[0] == kNoValue) return make_bias_gradient(request.inputs[0].shape);
  const ConvShape s = conv_shape(request);
  const bool transposed = is_transposed(request.op);
  return lambda_kernel(
      [s, transposed](const Arguments& args) {
        const float* x = args.in(transposed ? 0 : 1);
        const float* dy = args.in(transposed ? 1 : 0);
        float* dw = args.out(0);
        std::fill_n(dw, s.weights(), 0.0F);
        for_each_part(s, [&](const Part& part) {
          image_to_columns(s, x + part.x(), args.floats());
          multiply(dense(dy + part.y(), s.group_out(), s.out_plane()),
                   dense(args.floats(), s.depth(), s.out_plane(), true), 1, true, dw + part.w());
        });
        float* db = args.out(1);
        if (db == nullptr) return;
        if (transposed) {
          sum_channels(s.batch, s.in_channels, s.in_plane(), x, db);
        } else {
          sum_channels(s.batch, s.out_channels, s.out_plane(), dy, db);
        }
      },
      columns_bytes(s));
}

}  // namespace

void add_convolution(KernelTable& table) {
  table.add("Conv", {make_conv});
  table.add("ConvGradInput", {make_conv_grad_input});
  table.add("ConvGradWeight", {make_conv_grad_weight});
  table.add("ConvTranspose", {make_conv_grad_input});
  table.add("ConvTransposeGradInput", {make_conv});
  table.add("ConvTransposeGradWeight", {make_conv_grad_weight});
}

}  // namespace rookery::eigen
