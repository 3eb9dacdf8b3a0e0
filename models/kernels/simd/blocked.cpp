// Ops on images in blocks of channels. Batch normalization goes block by block, so that what it reads
// several times is still in the cache.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "models/graph/op_attributes.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"
#include "models/kernels/simd/batch_norm.hpp"
#include "models/kernels/simd/loops/loops.hpp"
#include "models/kernels/threads.hpp"

namespace rookery::simd {
namespace {

constexpr Index kBlock = kChannelBlock;

// body(first channel, offset of the block's first number) for every block.
template <typename Body>
void for_blocks(const BatchNormShape& s, Body body) {
  in_runs(s.channels / kBlock, s.batch * s.plane * kBlock, [&](Index block, Index count) {
    for (Index c = block * kBlock; c < (block + count) * kBlock; c += kBlock) body(c, c * s.plane);
  });
}

ChannelBlock block_of(const BatchNormShape& s) {
  return {.batch = s.batch, .plane = s.plane, .stride = s.channels * s.plane};
}

void train_batch_norm(const BatchNormShape& s, bool relu, const Loops& all, const Arguments& args) {
  const auto count = static_cast<float>(s.batch * s.plane);
  const float others = std::max(count - 1, 1.0F);
  const float keep = s.momentum;
  for_blocks(s, [&](Index first, Index begin) {
    alignas(64) float squares[kBlock];
    alignas(64) float scale[kBlock];
    float* mean = args.out(4) + first;
    all.block_statistics(block_of(s), args.in(0) + begin, mean, squares);
    for (Index i = 0; i < kBlock; ++i) {
      const Index c = first + i;
      const float inverse = 1 / std::sqrt(squares[i] / count + s.epsilon);
      args.out(5)[c] = inverse;
      scale[i] = args.in(1)[c] * inverse;
      if (args.out(1) != nullptr) args.out(1)[c] = keep * args.in(3)[c] + (1 - keep) * mean[i];
      if (args.out(2) != nullptr) args.out(2)[c] = keep * args.in(4)[c] + (1 - keep) * (squares[i] / others);
    }
    all.block_normalize(block_of(s), args.in(0) + begin, mean, scale, args.in(2) + first, relu,
                        args.out(0) + begin);
  });
  if (auto* tracked = args.out<std::int64_t>(3)) *tracked = *args.in<std::int64_t>(5) + 1;
}

void infer_batch_norm(const BatchNormShape& s, bool relu, const Loops& all, const Arguments& args) {
  for_blocks(s, [&](Index first, Index begin) {
    alignas(64) float scale[kBlock];
    for (Index i = 0; i < kBlock; ++i) {
      scale[i] = args.in(1)[first + i] / std::sqrt(args.in(4)[first + i] + s.epsilon);
    }
    all.block_normalize(block_of(s), args.in(0) + begin, args.in(3) + first, scale, args.in(2) + first, relu,
                        args.out(0) + begin);
  });
}

std::unique_ptr<Kernel> make_blocked_batch_norm(const KernelRequest& request) {
  const BatchNormShape s = batch_norm_shape(request);
  const auto run = s.training ? train_batch_norm : infer_batch_norm;
  return lambda_kernel([s, run, relu = has_activation(request.op), &all = loops()](const Arguments& args) {
    run(s, relu, all, args);
  });
}

void batch_norm_grad(const BatchNormShape& s, const Loops& all, const Arguments& args) {
  for_blocks(s, [&](Index first, Index begin) {
    alignas(64) float sum[kBlock];
    alignas(64) float product[kBlock];
    alignas(64) float mean_dy[kBlock];
    alignas(64) float slope[kBlock];
    alignas(64) float factor[kBlock];
    const float* dy = args.in(0) + begin;
    const float* x = args.in(1) + begin;
    const float* mean = args.in(3) + first;
    all.block_gradient_sums(block_of(s), dy, x, mean, sum, product);
    for (Index i = 0; i < kBlock; ++i) {
      const ChannelGradient of = channel_gradient(s, args, first + i, sum[i], product[i]);
      mean_dy[i] = of.mean_dy;
      slope[i] = of.slope;
      factor[i] = of.factor;
    }
    if (args.out(0) == nullptr) return;
    all.block_gradient(block_of(s), dy, x, mean, mean_dy, slope, factor, args.out(0) + begin);
  });
}

std::unique_ptr<Kernel> make_blocked_batch_norm_grad(const KernelRequest& request) {
  return lambda_kernel([s = batch_norm_shape(request), &all = loops()](const Arguments& args) {
    batch_norm_grad(s, all, args);
  });
}

BlockedPool blocked_pool(const KernelRequest& request) {
  const PoolShape s = pool_shape(request);
  const Window& w = s.window;
  return {.planes = s.planes / kBlock,
          .in_h = s.in_h,
          .in_w = s.in_w,
          .out_h = s.out_h,
          .out_w = s.out_w,
          .kernel_h = w.kernel[0],
          .kernel_w = w.kernel[1],
          .stride_h = w.stride[0],
          .stride_w = w.stride[1],
          .pad_top = w.pad_begin[0],
          .pad_left = w.pad_begin[1]};
}

// body(some planes, where they begin in the input and in the output)
template <typename Body>
void for_planes(const BlockedPool& all, Body body) {
  const Index in = all.in_h * all.in_w * kBlock;
  const Index out = all.out_h * all.out_w * kBlock;
  in_runs(all.planes, in, [&](Index first, Index count) {
    BlockedPool some = all;
    some.planes = count;
    body(some, first * in, first * out);
  });
}

// Do its windows have no gaps, and an index that fits into a byte?
bool is_dense(const Window& window) {
  return window.dilation == Plane{1, 1} && window.taps() <= 256;
}

std::unique_ptr<Kernel> make_blocked_max_pool(const KernelRequest& request) {
  if (!is_dense(pool_shape(request).window)) return nullptr;
  return lambda_kernel([s = blocked_pool(request), &all = loops()](const Arguments& args) {
    for_planes(s, [&](const BlockedPool& some, Index in, Index out) {
      auto* window = args.out<std::uint8_t>(1);
      all.blocked_max_pool(some, args.in(0) + in, args.out(0) + out,
                           window == nullptr ? nullptr : window + out);
    });
  });
}

std::unique_ptr<Kernel> make_blocked_max_pool_grad(const KernelRequest& request) {
  if (!is_dense(pool_shape(request).window)) return nullptr;
  return lambda_kernel([s = blocked_pool(request), &all = loops()](const Arguments& args) {
    for_planes(s, [&](const BlockedPool& some, Index in, Index out) {
      all.blocked_max_pool_grad(some, args.in(0) + out, args.in<std::uint8_t>(1) + out, args.out(0) + in);
    });
  });
}

// Blocks of channels lie along the axis of the channels, so that parts are joined as plain ones are.
std::unique_ptr<Kernel> make_blocked_concat(const KernelRequest& request) {
  Op op = request.op;
  if (std::int64_t& axis = std::get<std::int64_t>(op.attributes.at("axis")); axis < 0) axis += 4;
  const KernelRequest counted{.op = op, .inputs = request.inputs, .outputs = request.outputs};
  return eigen::kernels().find(op.type)->make(counted);
}

std::unique_ptr<Kernel> make_conversion(const KernelRequest& request) {
  const bool to_blocked = request.outputs[0].shape.rank() == 5;
  const Shape s = (to_blocked ? request.outputs[0] : request.inputs[0]).shape;
  const Index blocks = s[0] * s[1];
  const Index plane = s[2] * s[3];
  return lambda_kernel([=, &all = loops()](const Arguments& args) {
    in_runs(blocks, plane * kBlock, [&](Index first, Index count) {
      for (Index begin = first * plane * kBlock; begin < (first + count) * plane * kBlock;
           begin += plane * kBlock) {
        if (to_blocked) {
          all.transpose(kBlock, plane, args.in(0) + begin, plane, args.out(0) + begin, kBlock);
        } else {
          all.transpose(plane, kBlock, args.in(0) + begin, kBlock, args.out(0) + begin, plane);
        }
      }
    });
  });
}

}  // namespace

void add_blocked(KernelTable& table) {
  table.add("ToBlocked", {make_conversion});
  table.add("FromBlocked", {make_conversion});
  table.add_blocked("BatchNormalization", {.make = make_blocked_batch_norm, .fuses = true});
  table.add_blocked("BatchNormalizationGrad", {make_blocked_batch_norm_grad});
  table.add_blocked("MaxPool", {make_blocked_max_pool});
  table.add_blocked("MaxPoolGrad", {make_blocked_max_pool_grad});
  table.add_blocked("Concat", {make_blocked_concat});
  table.add_blocked("ConcatGrad", {make_blocked_concat});
}

}  // namespace rookery::simd
