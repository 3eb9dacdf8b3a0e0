// The small Xception (arXiv 1610.02357) of Keras' example "Image classification from scratch"
// (https://keras.io/examples/vision/image_classification_from_scratch/), with the names and initial
// distributions of its layers and PyTorch's names of their parameters; depthwise and pointwise parts of a
// separable convolution are called so. Keras' first layer divides pixels by 255: here data sets do. Outputs
// are logits; for two classes it is one, that of the second.

#include <cmath>
#include <map>
#include <utility>

#include "models/base/libraries/format.hpp"
#include "models/zoo/layers.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {
namespace {

using Conv = GraphBuilder::ConvOptions;

class SmallXception {
 public:
  explicit SmallXception(const ImageOptions& options) : options_(options) {}

  Graph build() {
    ValueId x = net_.input("input", {3, options_.image_size, options_.image_size});
    x = relu(norm(conv(x, 128, {.kernel = 3, .stride = 2})));
    for (const std::int64_t channels : {256, 512, 728}) x = block(x, channels);
    x = relu(norm(separable(x, 1024)));
    x = net_.flatten("flatten", net_.global_avg_pool("global_average_pooling2d", x));
    x = net_.dropout("dropout", x, 0.25F);
    const std::int64_t outputs = options_.classes == 2 ? 1 : options_.classes;
    return net_.finish(net_.linear("dense", x, outputs, true, glorot(channels_of(x), outputs)));
  }

 private:
  // Two separable convolutions and a pooling, beside a convolution of 1×1.
  ValueId block(ValueId x, std::int64_t channels) {
    ValueId y = norm(separable(relu(x), channels));
    y = norm(separable(relu(y), channels));
    y = net_.max_pool2d(layer("max_pooling2d"), y, 3, 2, GraphBuilder::kSameUpper);
    return net_.add(layer("add"), y, conv(x, channels, {.kernel = 1, .stride = 2}));
  }

  ValueId conv(ValueId x, std::int64_t channels, Conv options) {
    return convolve(layer("conv2d"), x, scaled(channels, options_.width), std::move(options));
  }

  // Every channel by itself, 3×3, then all of them at every place.
  ValueId separable(ValueId x, std::int64_t channels) {
    const std::string name = layer("separable_conv2d");
    const std::int64_t wide = channels_of(x);
    x = convolve(name + ".depthwise", x, wide, {.groups = wide, .bias = false});
    return convolve(name + ".pointwise", x, scaled(channels, options_.width), {.kernel = 1});
  }

  ValueId convolve(const std::string& name, ValueId x, std::int64_t channels, Conv options) {
    const std::int64_t taps = options.kernel.sizes[0] * options.kernel.sizes[0];
    // Keras counts the one output of each channel of a depthwise convolution.
    options.start = glorot(taps * channels_of(x), options.groups > 1 ? taps : taps * channels);
    options.padding = GraphBuilder::kSameUpper;
    return net_.conv2d(name, x, channels, options);
  }

  // Keras' start of weights, uniform in sqrt(6 / (fan_in + fan_out)); biases are 0.
  static LayerStart glorot(std::int64_t fan_in, std::int64_t fan_out) {
    const double bound = std::sqrt(6.0 / static_cast<double>(fan_in + fan_out));
    return {.weight = Initializer{.kind = Initializer::Kind::kUniform, .bound = static_cast<float>(bound)},
            .bias = Initializer{.kind = Initializer::Kind::kZeros}};
  }

  ValueId norm(ValueId x) { return net_.batch_norm(layer("batch_normalization"), x, 1e-3F, 0.01F); }
  ValueId relu(ValueId x) { return net_.relu(layer("activation"), x); }

  std::int64_t channels_of(ValueId x) const { return net_.shape_of(x)[1]; }

  // Keras counts the layers of every kind: "add", "add_1", …
  std::string layer(const std::string& kind) {
    const int number = layers_[kind]++;
    return number == 0 ? kind : fmt::format("{}_{}", kind, number);
  }

  GraphBuilder net_;
  ImageOptions options_;
  std::map<std::string, int> layers_;
};

}  // namespace

Graph small_xception(const ImageOptions& options) {
  return SmallXception(options).build();
}

}  // namespace rookery
