// Conv and its gradients on images in blocks, where maps are so small that much of every window lies in the
// padding: a matrix product for each pair of an input place and an output place that a tap connects, over the
// batch and the channels, so that no product is made with zeros.
//
// A map is gathered into a matrix [batch, channels] for each place, the weight into one [channels, channels]
// for each tap.
#include <algorithm>

#include "models/graph/op_attributes.hpp"
#include "models/kernels/onednn/place_convolution.hpp"
#include "models/kernels/onednn/product.hpp"
#include "models/kernels/onednn/program.hpp"
#include "models/kernels/shapes/shapes.hpp"
#include "models/kernels/simd/loops/loops.hpp"

namespace rookery::onednn {

namespace {

using dnnl::memory;
using Index = std::int64_t;

constexpr Index kMostPlaces = 16;

// The tap that connects two places. `adds_…`: an earlier pair has the same output (input, tap) already.
struct Pair {
  Index in, out, tap;
  bool adds_out = false, adds_in = false, adds_tap = false;
};

// By tap, so that a tap's matrix stays in the cache.
std::vector<Pair> connected_pairs(const ConvShape& s) {
  const Window& w = s.window;
  std::vector<Pair> pairs;
  std::vector<bool> out_seen(s.out_plane()), in_seen(s.in_plane());
  for (Index tap = 0; tap < s.taps(); ++tap) {
    bool tap_seen = false;
    for (Index out = 0; out < s.out_plane(); ++out) {
      const Index row = out / s.out_w * w.stride[0] - w.pad_begin[0] + tap / w.kernel[1] * w.dilation[0];
      const Index column = out % s.out_w * w.stride[1] - w.pad_begin[1] + tap % w.kernel[1] * w.dilation[1];
      if (row < 0 || row >= s.in_h || column < 0 || column >= s.in_w) continue;
      const Index in = row * s.in_w + column;
      pairs.push_back({in, out, tap, out_seen[out], in_seen[in], tap_seen});
      out_seen[out] = in_seen[in] = tap_seen = true;
    }
  }
  return pairs;
}

// c = a b, or c += a b, of row-major matrices; a may be given as its transpose.
class Product {
 public:
  Product(Index m, Index n, Index k, bool transposed)
      : a_({m, k}, memory::data_type::f32, transposed ? memory::format_tag::ba : memory::format_tag::ab),
        b_({k, n}, memory::data_type::f32, memory::format_tag::ab),
        c_({m, n}, memory::data_type::f32, memory::format_tag::ab) {
    for (const bool adds : {false, true}) {
      dnnl::primitive_attr attributes = user_scratchpad();
      dnnl::post_ops sum;
      if (adds) sum.append_sum();
      attributes.set_post_ops(sum);
      const dnnl::matmul::primitive_desc& descriptor = descriptors_[adds] =
          dnnl::matmul::primitive_desc({a_, b_, c_}, attributes, cpu_engine());
      const char* const implementation = descriptor.impl_info_str();
      is_fast_ = is_fast_ && is_optimized(implementation) && !shares_sums(implementation);
      const auto at = [](const memory::desc& desc) { return memory(desc, cpu_engine(), DNNL_MEMORY_NONE); };
      arguments_[adds] = {{DNNL_ARG_SRC, at(a_)},
                          {DNNL_ARG_WEIGHTS, at(b_)},
                          {DNNL_ARG_DST, at(c_)},
                          {DNNL_ARG_SCRATCHPAD, at(descriptor.scratchpad_desc())}};
      scratch_bytes_ = std::max(scratch_bytes_, align_up(descriptor.scratchpad_desc().get_size()));
    }
  }

  void prepare() {
    for (const bool adds : {false, true}) {
      if (!primitives_[adds]) primitives_[adds] = dnnl::matmul(descriptors_[adds]);
    }
  }
  bool is_fast() const { return is_fast_; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }

  void run(const dnnl::stream& stream, const float* a, const float* b, float* c, bool adds,
           std::byte* scratch) const {
    const auto& arguments = arguments_[adds];
    // oneDNN knows no constant memory; primitives only read their sources.
    arguments.at(DNNL_ARG_SRC).set_data_handle(const_cast<float*>(a), stream);
    arguments.at(DNNL_ARG_WEIGHTS).set_data_handle(const_cast<float*>(b), stream);
    arguments.at(DNNL_ARG_DST).set_data_handle(c, stream);
    arguments.at(DNNL_ARG_SCRATCHPAD).set_data_handle(scratch, stream);
    primitives_[adds].execute(stream, arguments);
  }

 private:
  memory::desc a_, b_, c_;
  dnnl::matmul::primitive_desc descriptors_[2];  // writes, and adds
  dnnl::primitive primitives_[2];                // empty before prepare()
  std::unordered_map<int, memory> arguments_[2];
  std::size_t scratch_bytes_ = 0;
  bool is_fast_ = true;
};

// Layouts of a weight of [out, in, height, width].
memory::desc weight_desc(const ConvShape& s, const memory::dims& strides) {
  return {{s.out_channels, s.in_channels, s.window.kernel[0], s.window.kernel[1]},
          memory::data_type::f32,
          strides};
}

memory::desc plain_weight(const ConvShape& s) {
  return weight_desc(s, {s.depth(), s.taps(), s.window.kernel[1], 1});
}

// For each tap [in, out].
memory::desc taps_in_out(const ConvShape& s) {
  const Index tap = s.in_channels * s.out_channels;
  return weight_desc(s, {1, s.out_channels, s.window.kernel[1] * tap, tap});
}

// For each tap [out, in].
memory::desc taps_out_in(const ConvShape& s) {
  const Index tap = s.in_channels * s.out_channels;
  return weight_desc(s, {s.in_channels, 1, s.window.kernel[1] * tap, tap});
}

// A copy of a weight from one layout to another.
class Reordering {
 public:
  Reordering(const memory::desc& from, const memory::desc& to)
      : from_(from, cpu_engine(), DNNL_MEMORY_NONE),
        to_(to, cpu_engine(), DNNL_MEMORY_NONE),
        descriptor_(from_, to_, user_scratchpad()),
        scratchpad_(descriptor_.scratchpad_desc(), cpu_engine(), DNNL_MEMORY_NONE) {}

  void prepare() {
    if (!primitive_) primitive_ = dnnl::reorder(descriptor_);
  }
  std::size_t scratch_bytes() const { return align_up(descriptor_.scratchpad_desc().get_size()); }

  void run(const dnnl::stream& stream, const float* from, float* to, std::byte* scratch) const {
    from_.set_data_handle(const_cast<float*>(from), stream);
    to_.set_data_handle(to, stream);
    scratchpad_.set_data_handle(scratch, stream);
    primitive_.execute(stream,
                       {{DNNL_ARG_FROM, from_}, {DNNL_ARG_TO, to_}, {DNNL_ARG_SCRATCHPAD, scratchpad_}});
  }

 private:
  memory from_, to_;
  dnnl::reorder::primitive_desc descriptor_;
  dnnl::reorder primitive_;  // empty before prepare()
  memory scratchpad_;
};

// [batch, channels / 16, places, 16] to [places, batch, channels].
void gather(Index batch, Index channels, Index places, const float* image, float* matrices) {
  for (Index n = 0; n < batch; ++n) {
    for (Index c = 0; c < channels; c += kChannelBlock) {
      for (Index place = 0; place < places; ++place, image += kChannelBlock)
        std::copy_n(image, kChannelBlock, matrices + (place * batch + n) * channels + c);
    }
  }
}

// The reverse, adding bias[channel] where there is one.
void scatter(Index batch, Index channels, Index places, const float* matrices, const float* bias,
             float* image) {
  for (Index n = 0; n < batch; ++n) {
    for (Index c = 0; c < channels; c += kChannelBlock) {
      for (Index place = 0; place < places; ++place, image += kChannelBlock) {
        const float* from = matrices + (place * batch + n) * channels + c;
        for (Index i = 0; i < kChannelBlock; ++i)
          image[i] = bias == nullptr ? from[i] : from[i] + bias[c + i];
      }
    }
  }
}

// What the three passes have in common. Scratch memory: matrices of X, of Y and of W, then the primitives'.
class PlaceConvolution : public Kernel {
 public:
  PlaceConvolution(const ConvShape& shape, Product product, Reordering reordering)
      : s_(shape),
        pairs_(connected_pairs(shape)),
        product_(std::move(product)),
        reordering_(std::move(reordering)),
        stream_(cpu_engine()) {}

  bool is_fast() const { return product_.is_fast(); }
  void prepare() final {
    apply_threads();
    product_.prepare();
    reordering_.prepare();
  }

  std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(x_size() + y_size() + s_.weights()) * sizeof(float) +
           std::max(product_.scratch_bytes(), reordering_.scratch_bytes());
  }

  void run(std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs, std::byte* scratch,
           const StepContext& context) final {
    apply_threads();
    float* x = reinterpret_cast<float*>(scratch);
    float* y = x + x_size();
    float* w = y + y_size();
    run_pass(Arguments{inputs, outputs, reinterpret_cast<std::byte*>(w + s_.weights()), context}, x, y, w);
    stream_.wait();
  }

 protected:
  virtual void run_pass(const Arguments& args, float* x, float* y, float* w) const = 0;

  // Sizes are multiples of 16 floats: channels are.
  Index x_place() const { return s_.batch * s_.in_channels; }
  Index y_place() const { return s_.batch * s_.out_channels; }
  Index w_tap() const { return s_.in_channels * s_.out_channels; }
  Index x_size() const { return s_.in_plane() * x_place(); }
  Index y_size() const { return s_.out_plane() * y_place(); }

  void multiply(const float* a, const float* b, float* c, bool adds, const Arguments& args) const {
    product_.run(stream_, a, b, c, adds, args.scratch);
  }
  void reorder(const float* from, float* to, const Arguments& args) const {
    reordering_.run(stream_, from, to, args.scratch);
  }

  const ConvShape s_;
  const std::vector<Pair> pairs_;

 private:
  Product product_;
  Reordering reordering_;
  dnnl::stream stream_;
};

class PlaceForward final : public PlaceConvolution {
 public:
  explicit PlaceForward(const ConvShape& shape)
      : PlaceConvolution(shape, Product(shape.batch, shape.out_channels, shape.in_channels, false),
                         Reordering(plain_weight(shape), taps_in_out(shape))) {}

 private:
  void run_pass(const Arguments& args, float* x, float* y, float* w) const override {
    gather(s_.batch, s_.in_channels, s_.in_plane(), args.in(0), x);
    reorder(args.in(1), w, args);
    for (const Pair& p : pairs_)
      multiply(x + p.in * x_place(), w + p.tap * w_tap(), y + p.out * y_place(), p.adds_out, args);
    scatter(s_.batch, s_.out_channels, s_.out_plane(), y, args.in(2), args.out(0));
  }
};

class GradInput final : public PlaceConvolution {
 public:
  explicit GradInput(const ConvShape& shape)
      : PlaceConvolution(shape, Product(shape.batch, shape.in_channels, shape.out_channels, false),
                         Reordering(plain_weight(shape), taps_out_in(shape))) {}

 private:
  void run_pass(const Arguments& args, float* x, float* y, float* w) const override {
    gather(s_.batch, s_.out_channels, s_.out_plane(), args.in(0), y);
    reorder(args.in(1), w, args);
    for (const Pair& p : pairs_)
      multiply(y + p.out * y_place(), w + p.tap * w_tap(), x + p.in * x_place(), p.adds_in, args);
    scatter(s_.batch, s_.in_channels, s_.in_plane(), x, nullptr, args.out(0));
  }
};

class GradWeight final : public PlaceConvolution {
 public:
  explicit GradWeight(const ConvShape& shape)
      : PlaceConvolution(shape, Product(shape.in_channels, shape.out_channels, shape.batch, true),
                         Reordering(taps_in_out(shape), plain_weight(shape))) {}

 private:
  void run_pass(const Arguments& args, float* x, float* y, float* w) const override {
    gather(s_.batch, s_.out_channels, s_.out_plane(), args.in(0), y);
    gather(s_.batch, s_.in_channels, s_.in_plane(), args.in(1), x);
    for (const Pair& p : pairs_)
      multiply(x + p.in * x_place(), y + p.out * y_place(), w + p.tap * w_tap(), p.adds_tap, args);
    reorder(w, args.out(0), args);
    if (float* bias = args.out(1)) {
      simd::loops().column_sums(s_.out_plane() * s_.batch, s_.out_channels, y, bias);
    }
  }
};

// Is every place and every tap part of a pair, so that each result is written?
bool all_take_part(const ConvShape& s) {
  Index outs = 0, ins = 0, taps = 0;
  for (const Pair& pair : connected_pairs(s)) {
    outs += !pair.adds_out;
    ins += !pair.adds_in;
    taps += !pair.adds_tap;
  }
  return outs == s.out_plane() && ins == s.in_plane() && taps == s.taps();
}

}  // namespace

std::unique_ptr<Kernel> make_place_convolution(const KernelRequest& request) {
  // Of a weight that is not trained only the bias has a gradient.
  if (request.op.type == "ConvGradWeight" && request.op.outputs[0] == kNoValue) return nullptr;
  const ConvShape s = conv_shape(request);
  const bool whole_blocks = s.in_channels % kChannelBlock == 0 && s.out_channels % kChannelBlock == 0;
  if (request.asks_for("bf16") || !is_blocked(request.op) || !whole_blocks || s.groups != 1 ||
      s.in_plane() > kMostPlaces || s.out_plane() > kMostPlaces || !all_take_part(s))
    return nullptr;
  std::unique_ptr<PlaceConvolution> kernel;
  if (request.op.type == "Conv") kernel = std::make_unique<PlaceForward>(s);
  if (request.op.type == "ConvGradInput") kernel = std::make_unique<GradInput>(s);
  if (request.op.type == "ConvGradWeight") kernel = std::make_unique<GradWeight>(s);
  if (!kernel || !kernel->is_fast()) return nullptr;
  return kernel;
}

}  // namespace rookery::onednn
