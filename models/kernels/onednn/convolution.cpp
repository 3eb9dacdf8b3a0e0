// Conv and the gradient of its input.
#include "models/kernels/onednn/convolution.hpp"

#include <algorithm>
#include <string>

#include "models/graph/op_attributes.hpp"
#include "models/kernels/onednn/product.hpp"
#include "models/kernels/shapes/channels.hpp"

namespace rookery::onednn {

using dnnl::memory;

namespace {

bool has_vectors_of_a_block() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return (isa & wanted) == wanted;
}

}  // namespace

ConvDescription describe_convolution(const KernelRequest& request) {
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
  if (request.asks_for("bf16")) d.source = memory::data_type::bf16;
  if (is_blocked(request.op)) {
    d.keeps_blocks = has_vectors_of_a_block();
    d.y_tag = Tag::nChw16c;
    if (s.in_channels % kChannelBlock == 0) d.x_tag = Tag::nChw16c;
  }
  if (s.groups > 1) d.w = {s.groups, s.group_out(), s.group_in(), window.kernel[0], window.kernel[1]};
  return d;
}

dnnl::convolution_forward::primitive_desc forward_descriptor(const ConvDescription& d, bool bias) {
  using Forward = dnnl::convolution_forward;
  const auto kind = dnnl::prop_kind::forward_training;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const Forward::desc description =
      bias ? Forward::desc(kind, algorithm, d.source_x(), d.source_w(), d.plain_bias(), d.result_y(),
                           d.strides, d.dilations, d.pad_begin, d.pad_end)
           : Forward::desc(kind, algorithm, d.source_x(), d.source_w(), d.result_y(), d.strides, d.dilations,
                           d.pad_begin, d.pad_end);
  return {description, user_scratchpad(), cpu_engine()};
}

std::vector<Run> runs(std::int64_t count, std::int64_t parts, std::int64_t block) {
  const std::int64_t blocks = (count + block - 1) / block;
  std::vector<Run> all;
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t first = i * blocks / parts * block;
    all.push_back({first, std::min((i + 1) * blocks / parts * block, count) - first});
  }
  return all;
}

memory images_of(Program& program, const memory& whole, Tag tag, const Run& images) {
  memory::dims dims = whole.get_desc().dims();
  std::size_t image = sizeof(float);
  for (std::size_t axis = 1; axis < dims.size(); ++axis) image *= static_cast<std::size_t>(dims[axis]);
  dims[0] = images.count;
  return program.part_of(whole, {dims, memory::data_type::f32, tag},
                         static_cast<std::size_t>(images.first) * image);
}

namespace {

// add(description, images) for all images; or, where threads would share sums, for runs of them, each a piece
// of the program.
template <typename Add>
void for_images(Program& program, const ConvDescription& d, const char* implementation, Add add) {
  if (!shares_sums(implementation)) return add(d, Run{0, d.shape.batch});
  const OneThread one;
  for (const Run& images : runs(d.shape.batch, std::min(d.shape.batch, kMostPieces))) {
    ConvDescription part = d;
    part.x[0] = part.y[0] = images.count;
    program.begin_piece();
    add(part, images);
  }
  program.end_pieces();
}

std::unique_ptr<Kernel> make_conv(const KernelRequest& request) {
  const ConvDescription whole = describe_convolution(request);
  const bool bias = is_given(request.op.inputs, 2);
  const std::string implementation = forward_descriptor(whole, bias).impl_info_str();
  if (!is_optimized(implementation.c_str())) return nullptr;
  auto program = std::make_unique<Program>();
  const memory all_x = program->input(0, whole.own_x());
  const memory w = program->input(1, whole.plain_w());
  const memory row = bias ? program->input(2, whole.plain_bias()) : memory();
  const memory all_y = program->output(0, whole.own_y());
  for_images(*program, whole, implementation.c_str(), [&](const ConvDescription& d, const Run& images) {
    const auto descriptor = forward_descriptor(d, bias);
    const memory x = images_of(*program, all_x, d.x_tag, images);
    const memory y = images_of(*program, all_y, d.y_tag, images);
    const memory staged = program->staging(y, descriptor.dst_desc());
    std::unordered_map<int, memory> arguments{
        {DNNL_ARG_SRC, program->converted(x, descriptor.src_desc())},
        {DNNL_ARG_WEIGHTS, program->converted(w, descriptor.weights_desc())},
        {DNNL_ARG_DST, staged}};
    if (bias) arguments.emplace(DNNL_ARG_BIAS, row);
    program->add<dnnl::convolution_forward>(descriptor, std::move(arguments));
    program->deliver(staged, y);
  });
  return program;
}

std::unique_ptr<Kernel> make_conv_grad_input(const KernelRequest& request) {
  using Backward = dnnl::convolution_backward_data;
  const auto descriptor_of = [](const ConvDescription& d) {
    return Backward::primitive_desc({dnnl::algorithm::convolution_direct, d.result_x(), d.source_w(),
                                     d.source_y(), d.strides, d.dilations, d.pad_begin, d.pad_end},
                                    user_scratchpad(), cpu_engine(), forward_descriptor(d, false));
  };
  const ConvDescription whole = describe_convolution(request);
  const std::string implementation = descriptor_of(whole).impl_info_str();
  if (!is_optimized(implementation.c_str())) return nullptr;
  auto program = std::make_unique<Program>();
  const memory all_dy = program->input(0, whole.own_y());
  const memory w = program->input(1, whole.plain_w());
  const memory all_dx = program->output(0, whole.own_x());
  for_images(*program, whole, implementation.c_str(), [&](const ConvDescription& d, const Run& images) {
    const Backward::primitive_desc descriptor = descriptor_of(d);
    const memory dy = images_of(*program, all_dy, d.y_tag, images);
    const memory dx = images_of(*program, all_dx, d.x_tag, images);
    const memory staged = program->staging(dx, descriptor.diff_src_desc());
    program->add<Backward>(descriptor,
                           {{DNNL_ARG_DIFF_DST, program->converted(dy, descriptor.diff_dst_desc())},
                            {DNNL_ARG_WEIGHTS, program->converted(w, descriptor.weights_desc())},
                            {DNNL_ARG_DIFF_SRC, staged}});
    program->deliver(staged, dx);
  });
  if (is_given(request.op.inputs, 2)) {  // of a ConvTranspose
    program->finally([s = whole.shape](const Arguments& args) {
      add_to_channels(s.batch, s.in_channels, s.in_plane(), args.in(2), args.out(0));
    });
  }
  return program;
}

}  // namespace

void add_convolution(KernelTable& table) {
  table.add("Conv", {make_conv});
  table.add("ConvGradInput", {make_conv_grad_input});
  table.add("ConvTranspose", {make_conv_grad_input});
  table.add("ConvTransposeGradInput", {make_conv});
}

}  // namespace rookery::onednn
