// The gradient of a convolution's weights. oneDNN shares the sums over images and places among the threads
// that there are, so that results would depend on them. Here they do not: the work is cut into pieces by
// shapes alone, each for one thread: runs of images, whose sums are added in their order, or runs of output
// channels, which have nothing in common.
#include <algorithm>
#include <vector>

#include "models/graph/op_attributes.hpp"
#include "models/kernels/arithmetic.hpp"
#include "models/kernels/onednn/convolution.hpp"
#include "models/kernels/shapes/channels.hpp"
#include "models/kernels/threads.hpp"

namespace rookery::onednn {
namespace {

using dnnl::memory;
using Backward = dnnl::convolution_backward_weights;

constexpr std::int64_t kLeastProducts = 1 << 21;  // of a piece

std::int64_t elements(const memory::dims& dims) {
  std::int64_t product = 1;
  for (const memory::dim dim : dims) product *= dim;
  return product;
}

struct Cut {
  std::vector<Run> images, channels;  // of one of them there is one run: all
};

// Images where what is added up is small beside them, since channels have to be copied.
Cut cut_of(const ConvDescription& d) {
  constexpr std::int64_t kSmall = 8;
  const std::int64_t products = d.shape.batch * d.shape.out_plane() * elements(d.w);
  const std::int64_t wanted = std::clamp<std::int64_t>(products / kLeastProducts, 1, kMostPieces);
  const std::int64_t images =
      std::min({wanted, d.shape.batch, (elements(d.x) + elements(d.y)) / (kSmall * elements(d.w))});
  const std::int64_t blocks = (d.shape.out_channels + kChannelBlock - 1) / kChannelBlock;
  const std::int64_t channels = d.shape.groups == 1 ? std::min(wanted, blocks) : 1;
  const bool by_images = images >= channels;
  return {runs(d.shape.batch, by_images ? images : 1),
          runs(d.shape.out_channels, by_images ? 1 : channels, kChannelBlock)};
}

// Adds up what the pieces have put side by side, in their order.
void add_up(const std::vector<memory>& parts, const memory& sum) {
  constexpr std::int64_t kPart = 1 << 14;
  const auto floats = [](const memory& of) { return static_cast<float*>(of.get_data_handle()); };
  const auto count = static_cast<std::int64_t>(sum.get_desc().get_size() / sizeof(float));
  in_parallel((count + kPart - 1) / kPart, [&](std::int64_t part) {
    const std::int64_t first = part * kPart;
    const std::int64_t last = std::min(first + kPart, count);
    float* const total = floats(sum);
    std::copy(floats(parts[0]) + first, floats(parts[0]) + last, total + first);
    for (std::size_t i = 1; i < parts.size(); ++i)
      host_arithmetic().add(total + first, floats(parts[i]) + first, static_cast<std::size_t>(last - first));
  });
}

class WeightGradient {
 public:
  explicit WeightGradient(const KernelRequest& request)
      : request_(request),
        whole_(describe_convolution(request)),
        transposed_(is_transposed(request.op)),
        bias_(!transposed_ && is_given(request.op.outputs, 1)),
        x_given_(program_->input(transposed_ ? 0 : 1, whole_.own_x())),
        dy_given_(program_->input(transposed_ ? 1 : 0, whole_.own_y())),
        dw_(program_->output(0, whole_.plain_w())),
        db_(bias_ ? program_->output(1, whole_.plain_bias()) : memory()) {}

  // nullptr where oneDNN has only reference loops.
  std::unique_ptr<Program> make() {
    const Cut cut = cut_of(whole_);
    {
      const OneThread one;
      for (const Run& images : cut.images) {
        for (const Run& channels : cut.channels)
          if (!add_piece(images, channels, cut.images.size() > 1)) return nullptr;
      }
    }
    program_->end_pieces();
    if (cut.images.size() > 1) deliver_sums();
    if (transposed_ && is_given(request_.op.outputs, 1)) {
      program_->finally([s = whole_.shape](const Arguments& args) {
        sum_channels(s.batch, s.in_channels, s.in_plane(), args.in(0), args.out(1));
      });
    }
    return std::move(program_);
  }

 private:
  bool add_piece(const Run& images, const Run& channels, bool is_summand) {
    ConvDescription d = whole_;
    d.x[0] = d.y[0] = images.count;
    if (channels.count < whole_.shape.out_channels) d.y[1] = d.bias[0] = d.w[0] = channels.count;
    const Backward::primitive_desc descriptor = describe_piece(d);
    if (!is_optimized(descriptor.impl_info_str())) return false;
    // All channels see the same images.
    if (!is_summand && !x_) x_ = program_->converted(x_of(images), descriptor.src_desc());
    program_->begin_piece();
    const memory dw = program_->output(0, d.plain_w(), bytes_of_weights(channels.first));
    const memory staged = is_summand ? program_->kept(descriptor.diff_weights_desc())
                                     : program_->staging(dw, descriptor.diff_weights_desc());
    std::unordered_map<int, memory> arguments{
        {DNNL_ARG_DIFF_DST, program_->converted(dy_of(images, channels), descriptor.diff_dst_desc())},
        {DNNL_ARG_SRC, program_->converted(is_summand ? x_of(images) : x_, descriptor.src_desc())},
        {DNNL_ARG_DIFF_WEIGHTS, staged}};
    if (bias_) {
      const auto offset = static_cast<std::size_t>(channels.first) * sizeof(float);
      const memory db =
          is_summand ? program_->kept(d.plain_bias()) : program_->output(1, d.plain_bias(), offset);
      arguments.emplace(DNNL_ARG_DIFF_BIAS, db);
      bias_parts_.push_back(db);
    }
    program_->add<Backward>(descriptor, std::move(arguments));
    weight_parts_.push_back(staged);
    if (!is_summand) program_->deliver(staged, dw);
    return true;
  }

  Backward::primitive_desc describe_piece(const ConvDescription& d) const {
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const Backward::desc description =
        bias_ ? Backward::desc(algorithm, d.source_x(), d.result_w(), d.plain_bias(), d.source_y(), d.strides,
                               d.dilations, d.pad_begin, d.pad_end)
              : Backward::desc(algorithm, d.source_x(), d.result_w(), d.source_y(), d.strides, d.dilations,
                               d.pad_begin, d.pad_end);
    return {description, user_scratchpad(), cpu_engine(), forward_descriptor(d, bias_)};
  }

  std::size_t bytes_of_weights(std::int64_t channels) const {
    return static_cast<std::size_t>(channels * (elements(whole_.w) / whole_.w[0])) * sizeof(float);
  }

  memory x_of(const Run& images) const { return images_of(*program_, x_given_, whole_.x_tag, images); }

  memory dy_of(const Run& images, const Run& channels) const {
    memory all = images_of(*program_, dy_given_, whole_.y_tag, images);
    if (channels.count == whole_.shape.out_channels) return all;
    memory::dims dims = all.get_desc().dims();
    dims[1] = channels.count;
    return program_->part_of(all, all.get_desc().submemory_desc(dims, {0, channels.first, 0, 0}), 0);
  }

  void deliver_sums() {
    const memory staged = program_->staging(dw_, weight_parts_.front().get_desc());
    program_->add_work([parts = weight_parts_, staged] { add_up(parts, staged); });
    if (bias_) program_->add_work([parts = bias_parts_, sum = db_] { add_up(parts, sum); });
    program_->deliver(staged, dw_);
  }

  const KernelRequest& request_;
  const ConvDescription whole_;
  const bool transposed_, bias_;
  std::unique_ptr<Program> program_ = std::make_unique<Program>();
  const memory x_given_, dy_given_, dw_, db_;
  memory x_;  // of all images
  std::vector<memory> weight_parts_, bias_parts_;
};

std::unique_ptr<Kernel> make_conv_grad_weight(const KernelRequest& request) {
  if (!is_given(request.op.outputs, 0)) return nullptr;
  return WeightGradient(request).make();
}

}  // namespace

void add_convolution_weights(KernelTable& table) {
  table.add("ConvGradWeight", {make_conv_grad_weight});
  table.add("ConvTransposeGradWeight", {make_conv_grad_weight});
}

}  // namespace rookery::onednn
