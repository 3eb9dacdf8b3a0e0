// Conv and its gradients. Winograd F(4x4, 3x3) (Lavin and Gray, arXiv 1509.09308) serves 3x3 windows
// over maps that are large enough to gain from it, where this oneDNN and processor have it.
#include <algorithm>

#include "models/graph/op_attributes.hpp"
#include "models/kernels/onednn/place_convolution.hpp"
#include "models/kernels/onednn/program.hpp"
#include "models/kernels/shapes/channels.hpp"
#include "models/kernels/shapes/shapes.hpp"

namespace rookery::onednn {
namespace {

using dnnl::memory;

struct ConvDescription {
  ConvShape shape;
  bool is_blocked = false;
  memory::data_type source = memory::data_type::f32;
  memory::dims x, w, bias, y;
  memory::dims strides, dilations, pad_begin, pad_end;
  Tag x_tag = Tag::nchw, y_tag = Tag::nchw;  // of the op's arguments

  memory::desc own_x() const { return {x, memory::data_type::f32, x_tag}; }
  memory::desc plain_w() const { return {w, memory::data_type::f32, w.size() == 5 ? Tag::goihw : Tag::oihw}; }
  memory::desc plain_bias() const { return {bias, memory::data_type::f32, Tag::x}; }
  memory::desc own_y() const { return {y, memory::data_type::f32, y_tag}; }
  // What primitives are asked for: blocked images as they are, plain ones in any layout. Sources may be
  // rounded to bf16; results are f32.
  memory::desc source_x() const { return {x, source, is_blocked ? x_tag : Tag::any}; }
  memory::desc source_w() const { return {w, source, Tag::any}; }
  memory::desc source_y() const { return {y, source, is_blocked ? y_tag : Tag::any}; }
  memory::desc result_x() const { return {x, memory::data_type::f32, is_blocked ? x_tag : Tag::any}; }
  memory::desc result_w() const { return {w, memory::data_type::f32, Tag::any}; }
  memory::desc result_y() const { return {y, memory::data_type::f32, is_blocked ? y_tag : Tag::any}; }
};

ConvDescription describe(const KernelRequest& request) {
  const ConvShape s = conv_shape(request);
  const Window& window = s.window;
  Plane pad_end = window.pad_end;
  for (std::size_t axis = 0; axis < pad_end.size(); ++axis) {
    // Elements behind all windows are no padding; oneDNN cannot leave out so many that a window would fit.
    if (-pad_end[axis] >= window.stride[axis]) {
      throw dnnl::error(dnnl_unimplemented, "a convolution that leaves out windows");
    }
    pad_end[axis] = std::max<std::int64_t>(pad_end[axis], 0);
  }
  ConvDescription d{.shape = s,
                    .x = {s.batch, s.in_channels, s.in_h, s.in_w},
                    .w = {s.out_channels, s.group_in(), window.kernel[0], window.kernel[1]},
                    .bias = {s.out_channels},
                    .y = {s.batch, s.out_channels, s.out_h, s.out_w},
                    .strides = {window.stride[0], window.stride[1]},
                    .dilations = {window.dilation[0] - 1, window.dilation[1] - 1},
                    .pad_begin = {window.pad_begin[0], window.pad_begin[1]},
                    .pad_end = {pad_end[0], pad_end[1]}};
  d.is_blocked = is_blocked(request.op);
  if (request.asks_for("bf16")) d.source = memory::data_type::bf16;
  if (d.is_blocked) {
    d.y_tag = Tag::nChw16c;
    if (s.in_channels % kChannelBlock == 0) d.x_tag = Tag::nChw16c;
  }
  if (s.groups > 1) d.w = {s.groups, s.group_out(), s.group_in(), window.kernel[0], window.kernel[1]};
  return d;
}

bool gains_from_winograd(const ConvShape& s) {
  const std::array<std::int64_t, 2> one{1, 1};
  return s.window.kernel == std::array<std::int64_t, 2>{3, 3} && s.window.stride == one &&
         s.window.dilation == one && s.groups == 1 && s.in_channels >= 16 && s.out_channels >= 16 &&
         s.out_h >= 8 && s.out_w >= 8;
}

// What make(algorithm) gives for the algorithm that the variant names, else for the rule's. Where the rule's
// Winograd does not exist, direct takes its place.
template <typename Make>
auto with_algorithm(const KernelRequest& request, const ConvShape& shape, Make make) {
  if (request.asks_for("winograd")) return make(dnnl::algorithm::convolution_winograd);
  const bool may_choose = !request.asks_for("direct") && !request.asks_for("bf16");
  if (may_choose && gains_from_winograd(shape)) {
    try {
      return make(dnnl::algorithm::convolution_winograd);
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
    }
  }
  return make(dnnl::algorithm::convolution_direct);
}

using Forward = dnnl::convolution_forward;

Forward::primitive_desc forward_descriptor(const ConvDescription& d, dnnl::algorithm algorithm, bool bias) {
  const auto kind = dnnl::prop_kind::forward_training;
  const Forward::desc description =
      bias ? Forward::desc(kind, algorithm, d.source_x(), d.source_w(), d.plain_bias(), d.result_y(),
                           d.strides, d.dilations, d.pad_begin, d.pad_end)
           : Forward::desc(kind, algorithm, d.source_x(), d.source_w(), d.result_y(), d.strides, d.dilations,
                           d.pad_begin, d.pad_end);
  return {description, user_scratchpad(), cpu_engine()};
}

bool has(const std::vector<ValueId>& ids, std::size_t index) {
  return index < ids.size() && ids[index] != kNoValue;
}

std::unique_ptr<Kernel> make_conv(const KernelRequest& request) {
  if (request.asks_for("places")) return make_place_convolution(request);
  const ConvDescription d = describe(request);
  const bool bias = has(request.op.inputs, 2);
  const auto descriptor = with_algorithm(
      request, d.shape, [&](dnnl::algorithm algorithm) { return forward_descriptor(d, algorithm, bias); });
  if (!is_optimized(descriptor.impl_info_str())) return nullptr;
  auto program = std::make_unique<Program>();
  const memory y = program->output(0, d.own_y());
  const memory staged = program->staging(y, descriptor.dst_desc());
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, program->converted(program->input(0, d.own_x()), descriptor.src_desc())},
      {DNNL_ARG_WEIGHTS, program->converted(program->input(1, d.plain_w()), descriptor.weights_desc())},
      {DNNL_ARG_DST, staged}};
  if (bias) arguments.emplace(DNNL_ARG_BIAS, program->input(2, d.plain_bias()));
  program->add<Forward>(descriptor, std::move(arguments));
  program->deliver(staged, y);
  return program;
}

std::unique_ptr<Kernel> make_conv_grad_input(const KernelRequest& request) {
  if (request.asks_for("places")) return make_place_convolution(request);
  using Backward = dnnl::convolution_backward_data;
  const ConvDescription d = describe(request);
  const auto descriptor = with_algorithm(request, d.shape, [&](dnnl::algorithm algorithm) {
    return Backward::primitive_desc(
        {algorithm, d.result_x(), d.source_w(), d.source_y(), d.strides, d.dilations, d.pad_begin, d.pad_end},
        user_scratchpad(), cpu_engine(), forward_descriptor(d, algorithm, false));
  });
  if (!is_optimized(descriptor.impl_info_str())) return nullptr;
  auto program = std::make_unique<Program>();
  const memory dx = program->output(0, d.own_x());
  const memory staged = program->staging(dx, descriptor.diff_src_desc());
  program->add<Backward>(
      descriptor,
      {{DNNL_ARG_DIFF_DST, program->converted(program->input(0, d.own_y()), descriptor.diff_dst_desc())},
       {DNNL_ARG_WEIGHTS, program->converted(program->input(1, d.plain_w()), descriptor.weights_desc())},
       {DNNL_ARG_DIFF_SRC, staged}});
  program->deliver(staged, dx);
  if (has(request.op.inputs, 2)) {  // of a ConvTranspose
    program->finally([s = d.shape](const Arguments& args) {
      add_to_channels(s.batch, s.in_channels, s.in_plane(), args.in(2), args.out(0));
    });
  }
  return program;
}

std::unique_ptr<Kernel> make_conv_grad_weight(const KernelRequest& request) {
  if (request.asks_for("places")) return make_place_convolution(request);
  using Backward = dnnl::convolution_backward_weights;
  if (!has(request.op.outputs, 0)) return nullptr;
  const ConvDescription d = describe(request);
  const bool transposed = is_transposed(request.op);
  const bool bias = !transposed && has(request.op.outputs, 1);
  const auto descriptor = with_algorithm(request, d.shape, [&](dnnl::algorithm algorithm) {
    const Backward::desc description =
        bias ? Backward::desc(algorithm, d.source_x(), d.result_w(), d.plain_bias(), d.source_y(), d.strides,
                              d.dilations, d.pad_begin, d.pad_end)
             : Backward::desc(algorithm, d.source_x(), d.result_w(), d.source_y(), d.strides, d.dilations,
                              d.pad_begin, d.pad_end);
    return Backward::primitive_desc(description, user_scratchpad(), cpu_engine(),
                                    forward_descriptor(d, algorithm, bias));
  });
  if (!is_optimized(descriptor.impl_info_str())) return nullptr;
  auto program = std::make_unique<Program>();
  const memory dw = program->output(0, d.plain_w());
  const memory staged = program->staging(dw, descriptor.diff_weights_desc());
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_DIFF_DST,
       program->converted(program->input(transposed ? 1 : 0, d.own_y()), descriptor.diff_dst_desc())},
      {DNNL_ARG_SRC,
       program->converted(program->input(transposed ? 0 : 1, d.own_x()), descriptor.src_desc())},
      {DNNL_ARG_DIFF_WEIGHTS, staged}};
  if (bias) arguments.emplace(DNNL_ARG_DIFF_BIAS, program->output(1, d.plain_bias()));
  program->add<Backward>(descriptor, std::move(arguments));
  program->deliver(staged, dw);
  if (transposed && has(request.op.outputs, 1)) {
    program->finally([s = d.shape](const Arguments& args) {
      sum_channels(s.batch, s.in_channels, s.in_plane(), args.in(0), args.out(1));
    });
  }
  return program;
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

}  // namespace rookery::onednn
