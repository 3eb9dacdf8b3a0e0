// The residual networks of "Deep Residual Learning for Image Recognition" (arXiv 1512.03385), with
// torchvision's names and initial distributions. Any image of 32 pixels or more a side will do: an average
// over the places comes before the last layer. Outputs are logits.

#include <array>

#include "models/base/libraries/format.hpp"
#include "models/zoo/layers.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {
namespace {

// x beside a block, by a convolution of its own where sizes differ.
ValueId shortcut(GraphBuilder& net, const std::string& name, ValueId x, std::int64_t channels,
                 std::int64_t stride, bool resizes) {
  if (!resizes) return x;
  return conv_norm(net, name + ".downsample.0", name + ".downsample.1", x, channels,
                   {.kernel = 1, .stride = stride});
}

// Two convolutions of 3×3.
ValueId basic_block(GraphBuilder& net, const std::string& name, ValueId x, std::int64_t channels,
                    std::int64_t stride, bool resizes) {
  ValueId y = conv_norm(net, name + ".conv1", name + ".bn1", x, channels, {.stride = stride});
  y = net.relu(name + ".relu1", y);
  y = conv_norm(net, name + ".conv2", name + ".bn2", y, channels, {});
  return net.relu(name + ".relu2",
                  net.add(name + ".add", y, shortcut(net, name, x, channels, stride, resizes)));
}

// A convolution of 3×3 between two of 1×1, of which the last makes four times as many channels. Strides are
// those of the middle one ("ResNet V1.5").
ValueId bottleneck(GraphBuilder& net, const std::string& name, ValueId x, std::int64_t channels,
                   std::int64_t stride, bool resizes) {
  ValueId y = conv_norm(net, name + ".conv1", name + ".bn1", x, channels, {.kernel = 1});
  y = net.relu(name + ".relu1", y);
  y = conv_norm(net, name + ".conv2", name + ".bn2", y, channels, {.stride = stride});
  y = net.relu(name + ".relu2", y);
  y = conv_norm(net, name + ".conv3", name + ".bn3", y, 4 * channels, {.kernel = 1});
  return net.relu(name + ".relu3",
                  net.add(name + ".add", y, shortcut(net, name, x, 4 * channels, stride, resizes)));
}

// Four layers of so many blocks.
Graph resnet(const ImageOptions& options, std::array<int, 4> blocks, bool is_deep) {
  GraphBuilder net;
  const std::int64_t stem = scaled(64, options.width);
  ValueId x = net.input("input", {3, options.image_size, options.image_size});
  x = net.relu("relu", conv_norm(net, "conv1", "bn1", x, stem, {.kernel = 7, .stride = 2}));
  x = net.max_pool2d("maxpool", x, 3, 2, 1);
  for (int layer = 0; layer < 4; ++layer) {
    for (int i = 0; i < blocks[layer]; ++i) {
      const std::string name = fmt::format("layer{}.{}", layer + 1, i);
      const std::int64_t stride = layer > 0 && i == 0 ? 2 : 1;
      const bool resizes = i == 0 && (layer > 0 || is_deep);
      x = (is_deep ? bottleneck : basic_block)(net, name, x, stem << layer, stride, resizes);
    }
  }
  x = net.flatten("flatten", net.global_avg_pool("avgpool", x));
  return net.finish(net.linear("fc", x, options.classes));
}

}  // namespace

Graph resnet18(const ImageOptions& options) {
  return resnet(options, {2, 2, 2, 2}, false);
}

Graph resnet50(const ImageOptions& options) {
  return resnet(options, {3, 4, 6, 3}, true);
}

}  // namespace rookery
