// VGG with 8 convolutions (configuration A of "Very Deep Convolutional Networks for Large-Scale Image
// Recognition", arXiv 1409.1556), with torchvision's names and initial distributions. Outputs are logits.

#include <cmath>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/zoo/layers.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {

Graph vgg11(const VggOptions& options) {
  constexpr std::int64_t kPool = 0;
  constexpr std::int64_t kTopSize = 7;  // of the features that the hidden layers see
  if (options.hidden > 0 && options.image_size != 32 * kTopSize) {
    throw ConfigError(
        fmt::format("vgg11: its hidden layers are made for images of {0} pixels a side, not {1}: "
                    "hidden=0 leaves them out",
                    32 * kTopSize, options.image_size));
  }
  GraphBuilder net;
  ValueId x = net.input("input", {3, options.image_size, options.image_size});
  int layer = 0;  // within torchvision's "features"
  for (const std::int64_t width :
       {64L, kPool, 128L, kPool, 256L, 256L, kPool, 512L, 512L, kPool, 512L, 512L, kPool}) {
    if (width == kPool) {
      x = net.max_pool2d(fmt::format("features.{}", layer++), x, 2, 2);
      continue;
    }
    const std::int64_t channels = scaled(width, options.width);
    const auto deviation = static_cast<float>(std::sqrt(2.0 / static_cast<double>(9 * channels)));
    x = net.conv2d(fmt::format("features.{}", layer++), x, channels, {.start = normal_start(deviation)});
    x = net.relu(fmt::format("features.{}", layer++), x);
  }
  x = net.flatten("flatten", x);
  if (options.hidden == 0) return net.finish(net.linear("classifier", x, options.classes));

  const LayerStart start = normal_start(0.01F);
  for (const int hidden : {0, 3}) {
    x = net.linear(fmt::format("classifier.{}", hidden), x, options.hidden, true, start);
    x = net.relu(fmt::format("classifier.{}", hidden + 1), x);
    x = net.dropout(fmt::format("classifier.{}", hidden + 2), x, 0.5F);
  }
  return net.finish(net.linear("classifier.6", x, options.classes, true, start));
}

}  // namespace rookery
