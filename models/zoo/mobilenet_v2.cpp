// "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (arXiv 1801.04381), with torchvision's names and
// initial distributions. Outputs are logits.

#include <algorithm>

#include "models/base/libraries/format.hpp"
#include "models/zoo/layers.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {
namespace {

ValueId conv_norm_relu6(GraphBuilder& net, const std::string& name, ValueId x, std::int64_t channels,
                        const GraphBuilder::ConvOptions& options) {
  return net.relu6(name + ".2", conv_norm(net, name + ".0", name + ".1", x, channels, options));
}

// Widened by a convolution of 1×1, filtered channel by channel, narrowed by a last one without ReLU. Where
// sizes are equal x is added.
struct InvertedResidual {
  std::int64_t from, to, stride, expansion;
};

ValueId inverted_residual(GraphBuilder& net, const std::string& name, ValueId x,
                          const InvertedResidual& block) {
  const std::int64_t wide = block.from * block.expansion;
  int layer = 0;
  const auto next = [&] { return fmt::format("{}.conv.{}", name, layer++); };
  ValueId y = x;
  if (block.expansion != 1) y = conv_norm_relu6(net, next(), y, wide, {.kernel = 1});
  y = conv_norm_relu6(net, next(), y, wide, {.stride = block.stride, .groups = wide});
  const std::string last = next();
  y = conv_norm(net, last, next(), y, block.to, {.kernel = 1});
  return block.stride == 1 && block.from == block.to ? net.add(name + ".add", x, y) : y;
}

}  // namespace

Graph mobilenet_v2(const ImageOptions& options) {
  struct Row {
    std::int64_t expansion, channels, blocks, stride;  // t, c, n, s of the paper's table 2
  };
  GraphBuilder net;
  ValueId x = net.input("input", {3, options.image_size, options.image_size});
  std::int64_t channels = scaled(32, options.width);
  int layer = 0;
  const auto next = [&] { return fmt::format("features.{}", layer++); };
  x = conv_norm_relu6(net, next(), x, channels, {.stride = 2});
  for (const Row& row : {Row{1, 16, 1, 1}, Row{6, 24, 2, 2}, Row{6, 32, 3, 2}, Row{6, 64, 4, 2},
                         Row{6, 96, 3, 1}, Row{6, 160, 3, 2}, Row{6, 320, 1, 1}}) {
    const std::int64_t to = scaled(row.channels, options.width);
    for (std::int64_t i = 0; i < row.blocks; ++i) {
      x = inverted_residual(net, next(), x, {channels, to, i == 0 ? row.stride : 1, row.expansion});
      channels = to;
    }
  }
  x = conv_norm_relu6(net, next(), x, scaled(1280, std::max(1.0, options.width)), {.kernel = 1});
  x = net.flatten("flatten", net.global_avg_pool("avgpool", x));
  x = net.dropout("classifier.0", x, 0.2F);
  return net.finish(net.linear("classifier.1", x, options.classes, true, normal_start(0.01F)));
}

}  // namespace rookery
