// Conv and its gradients as matrix products, image by image and group by group: the receptive fields
// of an image are the columns of a matrix [depth, out_plane] (im2col).
#include <algorithm>

#include "models/kernels/backend.hpp"
#include "models/kernels/eigen/families.hpp"
#include "models/kernels/eigen/product.hpp"
#include "models/kernels/shapes.hpp"

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

// What belongs to one image and one group.
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

void bias_gradient(const ConvShape& s, const float* dy, float* db) {
  for (std::int64_t channel = 0; channel < s.out_channels; ++channel) {
    double sum = 0;
    for (std::int64_t image = 0; image < s.batch; ++image) {
      const float* plane = dy + (image * s.out_channels + channel) * s.out_plane();
      for (std::int64_t i = 0; i < s.out_plane(); ++i) sum += plane[i];
    }
    db[channel] = static_cast<float>(sum);
  }
}

}  // namespace

std::unique_ptr<Kernel> make_conv(const KernelRequest& request) {
  const ConvShape s = conv_shape(request);
  return lambda_kernel(
      [s](const Arguments& args) {
        const float* bias = args.in(2);
        float* y = args.out(0);
        for (std::int64_t i = 0; i < s.batch * s.out_channels; ++i) {
          std::fill_n(y + i * s.out_plane(), s.out_plane(),
                      bias == nullptr ? 0.0F : bias[i % s.out_channels]);
        }
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
        std::fill_n(dx, s.batch * s.in_channels * s.in_plane(), 0.0F);
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
  const ConvShape s = conv_shape(request);
  return lambda_kernel(
      [s](const Arguments& args) {
        const float* dy = args.in(0);
        float* dw = args.out(0);
        std::fill_n(dw, s.weights(), 0.0F);
        for_each_part(s, [&](const Part& part) {
          image_to_columns(s, args.in(1) + part.x(), args.floats());
          multiply(dense(dy + part.y(), s.group_out(), s.out_plane()),
                   dense(args.floats(), s.depth(), s.out_plane(), true), 1, true, dw + part.w());
        });
        if (float* db = args.out(1)) bias_gradient(s, dy, db);
      },
      columns_bytes(s));
}

}  // namespace rookery::eigen
