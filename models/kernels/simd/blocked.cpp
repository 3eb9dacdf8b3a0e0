// Ops on images in blocks of channels. Batch normalization goes block by block, so that what it reads
// several times is still in the cache, unless there are more threads than blocks.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "models/graph/op_attributes.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"
#include "models/kernels/simd/batch_norm.hpp"
#include "models/kernels/simd/loops/loops.hpp"
#include "models/kernels/threads.hpp"

namespace rookery::simd {
namespace {

// The work on blocks, in pieces: whole blocks; or, where there are fewer of them than threads, images of a
// block, whose sums are added in their order, as those of a whole block are.
class BlockPieces {
 public:
  // `sums`: for each channel.
  BlockPieces(const BatchNormShape& s, Index sums)
      : s_(s), sums_(sums), pieces_(is_shared(s) ? s.batch : 1) {}

  std::size_t scratch_bytes() const { return float_bytes(sums_ * pieces_ * s_.channels); }

  struct Piece {
    ChannelBlock block;
    Index first;  // channel
    Index begin;  // of the piece's numbers
    Index at;     // of its sums
  };
  // each(piece), and then(first channel) of a block when all of its pieces are done.
  template <typename Each, typename Then>
  struct Phase {
    Phase(Each of_piece, Then of_block) : each(std::move(of_piece)), then(std::move(of_block)) {}
    Each each;
    Then then;
  };

  // One phase after the other, of a block or of all.
  template <typename... Phases>
  void run(const Phases&... phases) const {
    if (pieces_ > 1) return (run_shared(phases), ...);
    constexpr Index kPasses = 2;  // over an element, at least
    in_runs(blocks(), kPasses * s_.batch * s_.plane * kImageBlock, [&](Index block, Index count) {
      for (Index c = block * kImageBlock; c < (block + count) * kImageBlock; c += kImageBlock)
        ((phases.each(piece(c, 0)), phases.then(c)), ...);
    });
  }

  // The block's sums of all pieces.
  void add_up(const float* sums, Index first, float* total) const {
    std::copy_n(sums + first, kImageBlock, total);
    for (Index piece = 1; piece < pieces_; ++piece) {
      for (Index i = 0; i < kImageBlock; ++i) total[i] += sums[piece * s_.channels + first + i];
    }
  }
  // Where the sums of one kind lie, of `sums`.
  float* sums(float* scratch, Index kind) const { return scratch + kind * pieces_ * s_.channels; }

 private:
  static bool is_shared(const BatchNormShape& s) {
    constexpr Index kLeastPiece = 1024;
    return s.channels / kImageBlock < kernel_threads() &&
           s.plane * kImageBlock >= std::min(kLeastPiece, least_shared_work()) &&
           s.batch * s.channels * s.plane >= 2 * least_shared_work();
  }

  Index blocks() const { return s_.channels / kImageBlock; }

  template <typename Each, typename Then>
  void run_shared(const Phase<Each, Then>& phase) const {
    in_parallel(pieces_ * blocks(),
                [&](Index i) { phase.each(piece(i % blocks() * kImageBlock, i / blocks())); });
    for (Index c = 0; c < s_.channels; c += kImageBlock) phase.then(c);
  }

  Piece piece(Index first, Index number) const {
    return {.block = {.batch = s_.batch / pieces_, .plane = s_.plane, .stride = s_.channels * s_.plane},
            .first = first,
            .begin = number * s_.channels * s_.plane + first * s_.plane,
            .at = number * s_.channels + first};
  }

  BatchNormShape s_;
  Index sums_, pieces_;
};

void train_batch_norm(const BatchNormShape& s, const BlockPieces& pieces, bool relu, const Loops& all,
                      const Arguments& args) {
  using Piece = BlockPieces::Piece;
  const auto count = static_cast<float>(s.batch * s.plane);
  const float others = std::max(count - 1, 1.0F);
  const float keep = s.kept();
  float* const sums = pieces.sums(args.floats(), 0);
  float* const squares = pieces.sums(args.floats(), 1);
  float* const mean = args.out(4);
  float* const inverse = args.out(5);
  const auto end_mean = [&](Index first) {
    pieces.add_up(sums, first, mean + first);
    for (Index c = first; c < first + kImageBlock; ++c) mean[c] /= count;
  };
  const auto end_statistics = [&](Index first) {
    alignas(64) float square[kImageBlock];
    pieces.add_up(squares, first, square);
    for (Index i = 0; i < kImageBlock; ++i) {
      const Index c = first + i;
      inverse[c] = 1 / std::sqrt(square[i] / count + s.epsilon);
      if (args.out(1) != nullptr) args.out(1)[c] = keep * args.in(3)[c] + (1 - keep) * mean[c];
      if (args.out(2) != nullptr) args.out(2)[c] = keep * args.in(4)[c] + (1 - keep) * (square[i] / others);
    }
  };
  const auto normalize = [&](const Piece& of) {
    alignas(64) float scale[kImageBlock];
    for (Index i = 0; i < kImageBlock; ++i) scale[i] = args.in(1)[of.first + i] * inverse[of.first + i];
    all.block_normalize(of.block, args.in(0) + of.begin, mean + of.first, scale, args.in(2) + of.first,
                        added_at(args, of.begin), relu, args.out(0) + of.begin);
  };
  const auto sum = [&](const Piece& of) { all.block_sums(of.block, args.in(0) + of.begin, sums + of.at); };
  const auto sum_squares = [&](const Piece& of) {
    all.block_squares(of.block, args.in(0) + of.begin, mean + of.first, squares + of.at);
  };
  pieces.run(BlockPieces::Phase{sum, end_mean}, BlockPieces::Phase{sum_squares, end_statistics},
             BlockPieces::Phase{normalize, [](Index) {}});
  if (auto* tracked = args.out<std::int64_t>(3)) *tracked = *args.in<std::int64_t>(5) + 1;
}

void infer_batch_norm(const BatchNormShape& s, const BlockPieces& pieces, bool relu, const Loops& all,
                      const Arguments& args) {
  const auto normalize = [&](const BlockPieces::Piece& of) {
    alignas(64) float scale[kImageBlock];
    for (Index i = 0; i < kImageBlock; ++i)
      scale[i] = args.in(1)[of.first + i] / std::sqrt(args.in(4)[of.first + i] + s.epsilon);
    all.block_normalize(of.block, args.in(0) + of.begin, args.in(3) + of.first, scale, args.in(2) + of.first,
                        added_at(args, of.begin), relu, args.out(0) + of.begin);
  };
  pieces.run(BlockPieces::Phase{normalize, [](Index) {}});
}

std::unique_ptr<Kernel> make_blocked_batch_norm(const KernelRequest& request) {
  const BatchNormShape s = batch_norm_shape(request);
  const auto run = s.training ? train_batch_norm : infer_batch_norm;
  const BlockPieces pieces(s, s.training ? 2 : 0);
  return lambda_kernel([s, pieces, run, relu = has_activation(request.op),
                        &all = loops()](const Arguments& args) { run(s, pieces, relu, all, args); },
                       pieces.scratch_bytes());
}

void batch_norm_grad(const BatchNormShape& s, const BlockPieces& pieces, const Loops& all,
                     const Arguments& args) {
  using Piece = BlockPieces::Piece;
  const float* const dy = args.in(0);
  const float* const x = args.in(1);
  const float* const mean = args.in(3);
  float* const sums = pieces.sums(args.floats(), 0);
  float* const products = pieces.sums(args.floats(), 1);
  // dX's, of all channels: mean of dY, slope and factor.
  float* const mean_dy = pieces.sums(args.floats(), 2);
  float* const slope = mean_dy + s.channels;
  float* const factor = slope + s.channels;
  const auto end_sums = [&](Index first) {
    alignas(64) float sum[kImageBlock];
    alignas(64) float product[kImageBlock];
    pieces.add_up(sums, first, sum);
    pieces.add_up(products, first, product);
    for (Index i = 0; i < kImageBlock; ++i) {
      const ChannelGradient of = channel_gradient(s, args, first + i, sum[i], product[i]);
      mean_dy[first + i] = of.mean_dy;
      slope[first + i] = of.slope;
      factor[first + i] = of.factor;
    }
  };
  const auto sum = [&](const Piece& of) {
    all.block_gradient_sums(of.block, dy + of.begin, x + of.begin, mean + of.first, sums + of.at,
                            products + of.at);
  };
  const auto differentiate = [&](const Piece& of) {
    all.block_gradient(of.block, dy + of.begin, x + of.begin, mean + of.first, mean_dy + of.first,
                       slope + of.first, factor + of.first, args.out(0) + of.begin);
  };
  const BlockPieces::Phase summing{sum, end_sums};
  if (args.out(0) == nullptr) return pieces.run(summing);
  pieces.run(summing, BlockPieces::Phase{differentiate, [](Index) {}});
}

std::unique_ptr<Kernel> make_blocked_batch_norm_grad(const KernelRequest& request) {
  const BatchNormShape s = batch_norm_shape(request);
  const BlockPieces pieces(s, 2);
  constexpr Index kFactors = 3;
  return lambda_kernel(
      [s, pieces, &all = loops()](const Arguments& args) { batch_norm_grad(s, pieces, all, args); },
      pieces.scratch_bytes() + float_bytes(kFactors * s.channels));
}

BlockedPool blocked_pool(const KernelRequest& request) {
  const PoolShape s = pool_shape(request);
  const Window& w = s.window;
  return {.planes = s.planes / kImageBlock,
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
  const Index in = all.in_h * all.in_w * kImageBlock;
  const Index out = all.out_h * all.out_w * kImageBlock;
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
    in_runs(blocks, plane * kImageBlock, [&](Index first, Index count) {
      for (Index begin = first * plane * kImageBlock; begin < (first + count) * plane * kImageBlock;
           begin += plane * kImageBlock) {
        if (to_blocked) {
          all.transpose(kImageBlock, plane, args.in(0) + begin, plane, args.out(0) + begin, kImageBlock);
        } else {
          all.transpose(plane, kImageBlock, args.in(0) + begin, kImageBlock, args.out(0) + begin, plane);
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
