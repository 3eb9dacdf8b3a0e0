// Conv and its gradients. Winograd F(4x4, 3x3) (Lavin and Gray, arXiv 1509.09308) serves 3x3 windows
// over maps that are large enough to gain from it, where this oneDNN and processor have it.
#include <algorithm>

#include "models/kernels/channels.hpp"
#include "models/kernels/onednn/families.hpp"
#include "models/kernels/onednn/program.hpp"
#include "models/kernels/shapes.hpp"

namespace rookery::onednn {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

struct ConvDescription {
  ConvShape shape;
  memory::dims x, w, bias, y;
  memory::dims strides, dilations, pad_begin, pad_end;

  memory::desc plain_x() const { return {x, memory::data_type::f32, Tag::nchw}; }
  memory::desc plain_w() const { return {w, memory::data_type::f32, w.size() == 5 ? Tag::goihw : Tag::oihw}; }
  memory::desc plain_bias() const { return {bias, memory::data_type::f32, Tag::x}; }
  memory::desc plain_y() const { return {y, memory::data_type::f32, Tag::nchw}; }
};

memory::desc any(const memory::dims& dims) {
  return {dims, memory::data_type::f32, Tag::any};
}

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
  if (s.groups > 1) d.w = {s.groups, s.group_out(), s.group_in(), window.kernel[0], window.kernel[1]};
  return d;
}

bool winograd_serves(const ConvShape& s) {
  const std::array<std::int64_t, 2> one{1, 1};
  return s.window.kernel == std::array<std::int64_t, 2>{3, 3} && s.window.stride == one &&
         s.window.dilation == one && s.groups == 1;
}

bool gains_from_winograd(const ConvShape& s) {
  return s.in_channels >= 16 && s.out_channels >= 16 && s.out_h >= 8 && s.out_w >= 8;
}

// What make(algorithm) gives for the algorithm that the variant names; for the rule's where it names none.
// Where Winograd does not exist, direct takes its place.
template <typename Make>
auto with_algorithm(const KernelRequest& request, const ConvShape& shape, Make make) {
  const bool winograd =
      request.asks_for("winograd") || (!request.asks_for("direct") && gains_from_winograd(shape));
  if (winograd && winograd_serves(shape)) {
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
      bias ? Forward::desc(kind, algorithm, any(d.x), any(d.w), d.plain_bias(), any(d.y), d.strides,
                           d.dilations, d.pad_begin, d.pad_end)
           : Forward::desc(kind, algorithm, any(d.x), any(d.w), any(d.y), d.strides, d.dilations, d.pad_begin,
                           d.pad_end);
  return {description, user_scratchpad(), cpu_engine()};
}

bool has(const std::vector<ValueId>& ids, std::size_t index) {
  return index < ids.size() && ids[index] != kNoValue;
}

}  // namespace

std::unique_ptr<Kernel> make_conv(const KernelRequest& request) {
  const ConvDescription d = describe(request);
  const bool bias = has(request.op.inputs, 2);
  const auto descriptor = with_algorithm(
      request, d.shape, [&](dnnl::algorithm algorithm) { return forward_descriptor(d, algorithm, bias); });
  if (!is_optimized(descriptor.impl_info_str())) return nullptr;
  auto program = std::make_unique<Program>();
  const memory y = program->output(0, d.plain_y());
  const memory staged = program->staging(y, descriptor.dst_desc());
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, program->converted(program->input(0, d.plain_x()), descriptor.src_desc())},
      {DNNL_ARG_WEIGHTS, program->converted(program->input(1, d.plain_w()), descriptor.weights_desc())},
      {DNNL_ARG_DST, staged}};
  if (bias) arguments.emplace(DNNL_ARG_BIAS, program->input(2, d.plain_bias()));
  program->add(descriptor, Forward(descriptor), std::move(arguments));
  program->deliver(staged, y);
  return program;
}

std::unique_ptr<Kernel> make_conv_grad_input(const KernelRequest& request) {
  using Backward = dnnl::convolution_backward_data;
  const ConvDescription d = describe(request);
  const auto descriptor = with_algorithm(request, d.shape, [&](dnnl::algorithm algorithm) {
    return Backward::primitive_desc(
        {algorithm, any(d.x), any(d.w), any(d.y), d.strides, d.dilations, d.pad_begin, d.pad_end},
        user_scratchpad(), cpu_engine(), forward_descriptor(d, algorithm, false));
  });
  if (!is_optimized(descriptor.impl_info_str())) return nullptr;
  auto program = std::make_unique<Program>();
  const memory dx = program->output(0, d.plain_x());
  const memory staged = program->staging(dx, descriptor.diff_src_desc());
  program->add(
      descriptor, Backward(descriptor),
      {{DNNL_ARG_DIFF_DST, program->converted(program->input(0, d.plain_y()), descriptor.diff_dst_desc())},
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
  using Backward = dnnl::convolution_backward_weights;
  if (!has(request.op.outputs, 0)) return nullptr;
  const ConvDescription d = describe(request);
  const bool transposed = is_transposed(request.op);
  const bool bias = !transposed && has(request.op.outputs, 1);
  const auto descriptor = with_algorithm(request, d.shape, [&](dnnl::algorithm algorithm) {
    const Backward::desc description =
        bias ? Backward::desc(algorithm, any(d.x), any(d.w), d.plain_bias(), any(d.y), d.strides, d.dilations,
                              d.pad_begin, d.pad_end)
             : Backward::desc(algorithm, any(d.x), any(d.w), any(d.y), d.strides, d.dilations, d.pad_begin,
                              d.pad_end);
    return Backward::primitive_desc(description, user_scratchpad(), cpu_engine(),
                                    forward_descriptor(d, algorithm, bias));
  });
  if (!is_optimized(descriptor.impl_info_str())) return nullptr;
  auto program = std::make_unique<Program>();
  const memory dw = program->output(0, d.plain_w());
  const memory staged = program->staging(dw, descriptor.diff_weights_desc());
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_DIFF_DST,
       program->converted(program->input(transposed ? 1 : 0, d.plain_y()), descriptor.diff_dst_desc())},
      {DNNL_ARG_SRC,
       program->converted(program->input(transposed ? 0 : 1, d.plain_x()), descriptor.src_desc())},
      {DNNL_ARG_DIFF_WEIGHTS, staged}};
  if (bias) arguments.emplace(DNNL_ARG_DIFF_BIAS, program->output(1, d.plain_bias()));
  program->add(descriptor, Backward(descriptor), std::move(arguments));
  program->deliver(staged, dw);
  if (transposed && has(request.op.outputs, 1)) {
    program->finally([s = d.shape](const Arguments& args) {
      sum_channels(s.batch, s.in_channels, s.in_plane(), args.in(0), args.out(1));
    });
  }
  return program;
}

}  // namespace rookery::onednn
