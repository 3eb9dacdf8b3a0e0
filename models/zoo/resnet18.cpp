// The residual network of 18 layers of "Deep Residual Learning for Image Recognition" (arXiv 1512.03385),
// with torchvision's names. Any image of 32 pixels or more a side will do: an average over the places comes
// before the last layer. Outputs are logits.
#include <fmt/format.h>

#include "models/graph/builder.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {
namespace {

ValueId convolve(GraphBuilder& net, const std::string& name, ValueId x, std::int64_t channels,
                 std::int64_t kernel, std::int64_t stride) {
  return net.conv2d(name, x, channels, {.kernel = kernel, .stride = stride, .bias = false});
}

// Two convolutions beside which x goes on, by a convolution of its own where sizes differ.
ValueId basic_block(GraphBuilder& net, const std::string& name, ValueId x, std::int64_t channels,
                    std::int64_t stride, bool resizes) {
  ValueId y = convolve(net, name + ".conv1", x, channels, 3, stride);
  y = net.relu(name + ".relu1", net.batch_norm(name + ".bn1", y));
  y = net.batch_norm(name + ".bn2", convolve(net, name + ".conv2", y, channels, 3, 1));
  if (resizes) {
    x = convolve(net, name + ".downsample.0", x, channels, 1, stride);
    x = net.batch_norm(name + ".downsample.1", x);
  }
  return net.relu(name + ".relu2", net.add(name + ".add", y, x));
}

}  // namespace

Graph resnet18(std::int64_t image_size, std::int64_t classes) {
  GraphBuilder net;
  ValueId x = net.input("input", {3, image_size, image_size});
  x = convolve(net, "conv1", x, 64, 7, 2);
  x = net.relu("relu", net.batch_norm("bn1", x));
  x = net.max_pool2d("maxpool", x, 3, 2, 1);
  std::int64_t channels = 64;
  for (int layer = 1; layer <= 4; ++layer, channels *= 2) {
    const std::int64_t stride = layer == 1 ? 1 : 2;
    x = basic_block(net, fmt::format("layer{}.0", layer), x, channels, stride, layer > 1);
    x = basic_block(net, fmt::format("layer{}.1", layer), x, channels, 1, false);
  }
  x = net.flatten("flatten", net.global_avg_pool("avgpool", x));
  return net.finish(net.linear("fc", x, classes));
}

}  // namespace rookery
