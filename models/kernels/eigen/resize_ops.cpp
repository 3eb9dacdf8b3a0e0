// Resize and its gradient, plane by plane.
#include <algorithm>

#include "models/graph/ops/resize.hpp"
#include "models/kernels/backend.hpp"

namespace rookery::eigen {
namespace {

// An image without a height is one of height 1.
struct Planes {
  std::int64_t count, in_h, in_w;
  std::vector<Sample> rows, columns;  // of the output
};

Planes planes_of(const Op& op, const Shape& from, const Shape& to) {
  const int last = from.rank() - 1;
  const bool has_height = from.rank() == 4;
  return {.count = from[0] * from[1],
          .in_h = has_height ? from[2] : 1,
          .in_w = from[last],
          .rows = has_height ? samples_along(op, 2, from[2], to[2]) : std::vector<Sample>(1),
          .columns = samples_along(op, last, from[last], to[last])};
}

std::unique_ptr<Kernel> make_resize(const KernelRequest& request) {
  return lambda_kernel(
      [p = planes_of(request.op, request.inputs[0].shape, request.outputs[0].shape)](const Arguments& args) {
        const float* x = args.in(0);
        float* y = args.out(0);
        for (std::int64_t plane = 0; plane < p.count; ++plane, x += p.in_h * p.in_w) {
          for (const Sample& row : p.rows) {
            const float* low = x + row.low * p.in_w;
            const float* high = x + row.high * p.in_w;
            for (const Sample& column : p.columns) {
              const float above = low[column.low] + column.weight * (low[column.high] - low[column.low]);
              const float below = high[column.low] + column.weight * (high[column.high] - high[column.low]);
              *y++ = above + row.weight * (below - above);
            }
          }
        }
      });
}

// Shares of dY are added in its order.
std::unique_ptr<Kernel> make_resize_grad(const KernelRequest& request) {
  return lambda_kernel(
      [p = planes_of(request.op, request.outputs[0].shape, request.inputs[0].shape)](const Arguments& args) {
        const float* dy = args.in(0);
        float* dx = args.out(0);
        std::fill_n(dx, p.count * p.in_h * p.in_w, 0.0F);
        for (std::int64_t plane = 0; plane < p.count; ++plane, dx += p.in_h * p.in_w) {
          for (const Sample& row : p.rows) {
            float* low = dx + row.low * p.in_w;
            float* high = dx + row.high * p.in_w;
            for (const Sample& column : p.columns) {
              const float below = *dy * row.weight;
              const float above = *dy++ - below;
              low[column.low] += above - above * column.weight;
              low[column.high] += above * column.weight;
              high[column.low] += below - below * column.weight;
              high[column.high] += below * column.weight;
            }
          }
        }
      });
}

}  // namespace

void add_resize(KernelTable& table) {
  table.add("Resize", {make_resize});
  table.add("ResizeGrad", {make_resize_grad});
}

}  // namespace rookery::eigen
