// BatchNormalization and its gradient; what is computed is said in eigen/batch_norm.cpp.
#include "models/kernels/simd/batch_norm.hpp"

#include <algorithm>
#include <cmath>

#include "models/graph/op_attributes.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"
#include "models/kernels/simd/loops/loops.hpp"
#include "models/kernels/threads.hpp"

namespace rookery::simd {
namespace {

Index padded(Index channels) {
  return (channels + 15) / 16 * 16;
}

// Scratch for `arrays` numbers a channel.
std::size_t scratch_for(Index channels, Index arrays) {
  return static_cast<std::size_t>(padded(channels) * arrays) * sizeof(float);
}

// body(images, first element) for runs of the images, whose elements come of statistics that are known.
template <typename Body>
void for_images(const BatchNormShape& s, Body body) {
  const Index image = s.channels * s.plane;
  in_runs(s.batch, image, [&](Index first, Index count) {
    body(BatchNorm{count, s.channels, s.plane}, first * image);
  });
}

void run_training(const BatchNormShape& s, bool relu, const Loops& all, const Arguments& args) {
  const BatchNorm size{s.batch, s.channels, s.plane};
  float* squares = args.floats();
  float* scale = squares + padded(s.channels);
  float* mean = args.out(4);
  float* inverse = args.out(5);
  all.batch_norm_statistics(size, args.in(0), mean, squares);
  const auto count = static_cast<float>(s.batch * s.plane);
  const float others = std::max(count - 1, 1.0F);
  const float keep = s.kept();
  for (Index c = 0; c < s.channels; ++c) {
    inverse[c] = 1 / std::sqrt(squares[c] / count + s.epsilon);
    scale[c] = args.in(1)[c] * inverse[c];
    if (args.out(1) != nullptr) args.out(1)[c] = keep * args.in(3)[c] + (1 - keep) * mean[c];
    if (args.out(2) != nullptr) args.out(2)[c] = keep * args.in(4)[c] + (1 - keep) * (squares[c] / others);
  }
  for_images(s, [&](const BatchNorm& images, Index at) {
    all.batch_norm_apply(images, args.in(0) + at, mean, scale, args.in(2), added_at(args, at), relu,
                         args.out(0) + at);
  });
  if (auto* tracked = args.out<std::int64_t>(3)) *tracked = *args.in<std::int64_t>(5) + 1;
}

std::unique_ptr<Kernel> make_batch_norm(const KernelRequest& request) {
  const BatchNormShape s = batch_norm_shape(request);
  const Loops& all = loops();
  const bool relu = has_activation(request.op);
  if (s.training) {
    return lambda_kernel([s, relu, &all](const Arguments& args) { run_training(s, relu, all, args); },
                         scratch_for(s.channels, 2));
  }
  return lambda_kernel(
      [s, relu, &all](const Arguments& args) {
        float* scale = args.floats();
        for (Index c = 0; c < s.channels; ++c)
          scale[c] = args.in(1)[c] / std::sqrt(args.in(4)[c] + s.epsilon);
        for_images(s, [&](const BatchNorm& images, Index at) {
          all.batch_norm_apply(images, args.in(0) + at, args.in(3), scale, args.in(2), added_at(args, at),
                               relu, args.out(0) + at);
        });
      },
      scratch_for(s.channels, 1));
}

std::unique_ptr<Kernel> make_batch_norm_grad(const KernelRequest& request) {
  const BatchNormShape s = batch_norm_shape(request);
  return lambda_kernel(
      [s, &all = loops()](const Arguments& args) {
        const BatchNorm size{s.batch, s.channels, s.plane};
        const float* mean = args.in(3);
        const Index step = padded(s.channels);
        float* sum = args.floats();
        float* product = sum + step;
        float* mean_dy = product + step;
        float* slope = mean_dy + step;
        float* factor = slope + step;
        all.batch_norm_sums(size, args.in(0), args.in(1), mean, sum, product);
        for (Index c = 0; c < s.channels; ++c) {
          const ChannelGradient of = channel_gradient(s, args, c, sum[c], product[c]);
          mean_dy[c] = of.mean_dy;
          slope[c] = of.slope;
          factor[c] = of.factor;
        }
        if (args.out(0) == nullptr) return;
        for_images(s, [&](const BatchNorm& images, Index at) {
          all.batch_norm_grad(images, args.in(0) + at, args.in(1) + at, mean, mean_dy, slope, factor,
                              args.out(0) + at);
        });
      },
      scratch_for(s.channels, 5));
}

}  // namespace

void add_batch_norm(KernelTable& table) {
  table.add("BatchNormalization", {.make = make_batch_norm, .fuses = true});
  table.add("BatchNormalizationGrad", {make_batch_norm_grad});
}

}  // namespace rookery::simd
